//! `y = act(layer_norm(x) W^T + b)`, some rows at a time, so that the normalised operand is never stored in full.

use super::layer_norm::normalize;
use super::linear::{packed, padded};
use crate::Result;
use crate::backend::cpu::floats::Floats;
use crate::backend::cpu::matmul::{Epilogue, multiply};
use crate::backend::cpu::step::Step;
use crate::ops::LayerNormLinear;

/// Number of normalised rows stored at a time.
const ROWS: usize = 256;

pub(super) fn layer_norm_linear(
    step: &Step<'_>,
    op: &LayerNormLinear,
    (out, scratch): (&mut [f32], &mut Floats),
) -> Result<()> {
    let [x, norm_weight, norm_bias] = [0, 1, 2].map(|place| step.floats(place));
    let (x, norm) = (x?, (norm_weight?, norm_bias?));
    let mut own = Vec::new();
    let weight = packed(step, 3, &mut own)?;
    let bias = padded(step, step.given(4).then_some(4), weight)?;
    let (depth, columns) = (norm.0.len(), step.shape(3).rows().size(step.counts));
    scratch.resize((ROWS * depth).min(x.len()), "normalised rows")?;
    for (number, out) in out.chunks_mut((ROWS * columns).max(1)).enumerate() {
        let rows = out.len() / columns.max(1);
        let (x, normal) = (&x[number * ROWS * depth..][..rows * depth], &mut scratch[..rows * depth]);
        step.team.rows(normal, depth, 16, |first, part| {
            normalize(step.arch, &op.norm(), &x[first * depth..][..part.len()], norm, part);
        });
        let epilogue = Epilogue { bias: &bias, activation: op.activation, residual: None };
        multiply(step.arch, step.team, normal, weight, epilogue, out)?;
    }
    Ok(())
}
