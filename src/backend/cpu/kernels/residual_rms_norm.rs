//! `y = rms_norm(x + residual)`, row by row.

use super::rms_norm::normalize;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::ResidualRmsNorm;

pub(super) fn residual_rms_norm(step: &Step<'_>, op: &ResidualRmsNorm, out: &mut [f32]) -> Result<()> {
    let (x, residual, weight) = (step.floats(0)?, step.floats(1)?, step.floats(2)?);
    let columns = weight.len();
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        let [x, residual] = [x, residual].map(|of| &of[row * columns..]);
        y.iter_mut().zip(x).zip(residual).for_each(|((y, x), residual)| *y = x + residual);
        normalize(&op.0, weight, y);
    }));
    Ok(())
}
