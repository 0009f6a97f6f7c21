//! `y = g act'(x)`

use super::functions::times_slope;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::ActivationBackward;

pub(super) fn activation_backward(step: &Step<'_>, op: &ActivationBackward, out: &mut [f32]) -> Result<()> {
    let (g, x) = (step.floats(0)?, step.floats(1)?);
    step.team.rows(out, 1, 4096, |first, part| {
        part.copy_from_slice(&g[first..first + part.len()]);
        times_slope(step.arch, &op.0, &x[first..first + part.len()], part);
    });
    Ok(())
}
