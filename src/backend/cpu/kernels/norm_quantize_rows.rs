//! A norm's rows, as the norm computes them, then their integers.

use super::quantize_rows::{Given, quantize};
use super::{Memory, layer_norm, rms_norm};
use crate::backend::cpu::step::Step;
use crate::ops::{LayerNormQuantizeRows, RmsNormQuantizeRows};
use crate::{Error, Result};

pub(super) fn layer_norm_quantize_rows(
    step: &Step<'_>,
    op: &LayerNormQuantizeRows,
    memory: Memory<'_, '_>,
) -> Result<()> {
    let factors = op.factors.then(|| step.floats(3)).transpose()?;
    let (results, y) = normalised(step, memory)?;
    layer_norm::layer_norm(step, &op.norm(), y)?;
    quantize(step, &op.rounding(), Given { x: y, columns: step.shape(0).columns(), factors }, results)
}

pub(super) fn rms_norm_quantize_rows(step: &Step<'_>, op: &RmsNormQuantizeRows, memory: Memory<'_, '_>) -> Result<()> {
    let factors = op.factors.then(|| step.floats(2)).transpose()?;
    let (results, y) = normalised(step, memory)?;
    rms_norm::rms_norm(step, &op.norm(), y)?;
    quantize(step, &op.rounding(), Given { x: y, columns: step.shape(0).columns(), factors }, results)
}

/// The results of the rounding, and the memory of the norm's: the third result, or scratch memory.
fn normalised<'a, 'b>(
    step: &Step<'_>,
    Memory { results, scratch }: Memory<'a, 'b>,
) -> Result<(&'a mut [&'b mut [f32]], &'a mut [f32])> {
    match results.len() {
        2 => {
            scratch.resize(step.shape(0).elements(step.counts), "normalised rows")?;
            Ok((results, &mut scratch[..]))
        }
        3 => {
            let (results, y) = results.split_at_mut(2);
            Ok((results, &mut *y[0]))
        }
        _ => Err(Error::InvalidArgument("a norm in integers: expected two or three results".into())),
    }
}
