//! `y = g act'(x)`

use super::functions::slope;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::graph::ValueId;
use crate::ops::ActivationBackward;

pub(super) fn run(step: &Step<'_>, op: &ActivationBackward, operands: &[ValueId], out: &mut [f32]) -> Result<()> {
    let (g, x) = (step.floats(operands[0])?, step.floats(operands[1])?);
    step.team.rows(out, 1, 1024, |first, part| {
        for ((y, g), x) in part.iter_mut().zip(&g[first..]).zip(&x[first..]) {
            *y = (f64::from(*g) * slope(&op.0, *x)) as f32;
        }
    });
    Ok(())
}
