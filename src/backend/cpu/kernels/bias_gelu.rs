//! `y = gelu(x + bias)`

use super::functions::activate;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::{Activation, BiasGelu};

pub(super) fn bias_gelu(step: &Step<'_>, op: &BiasGelu, out: &mut [f32]) -> Result<()> {
    let (x, bias) = (step.floats(0)?, step.floats(1)?);
    let gelu = Activation::from(op.approximate.kind());
    step.team.rows(out, bias.len(), 1 + 4096 / bias.len().max(1), |first, part| {
        let rows = x[first * bias.len()..].chunks_exact(bias.len());
        for (y, x) in part.chunks_exact_mut(bias.len()).zip(rows) {
            y.iter_mut().zip(x).zip(bias).for_each(|((y, x), bias)| *y = x + bias);
        }
        activate(step.arch, &gelu, part);
    });
    Ok(())
}
