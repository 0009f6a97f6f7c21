//! `y = layer_norm(x + residual)`, row by row.

use super::layer_norm::normalize;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::ResidualLayerNorm;

pub(super) fn residual_layer_norm(step: &Step<'_>, op: &ResidualLayerNorm, out: &mut [f32]) -> Result<()> {
    let (x, residual, weight, bias) = (step.floats(0)?, step.floats(1)?, step.floats(2)?, step.floats(3)?);
    let columns = weight.len();
    step.team.rows(out, columns, 16, |first, part| {
        let mut sum = vec![0.0; columns];
        let rows = x[first * columns..].chunks_exact(columns).zip(residual[first * columns..].chunks_exact(columns));
        for (y, (x, residual)) in part.chunks_exact_mut(columns).zip(rows) {
            sum.iter_mut().zip(x).zip(residual).for_each(|((sum, x), residual)| *sum = x + residual);
            normalize(step.arch, &op.0, &sum, (weight, bias), y);
        }
    });
    Ok(())
}
