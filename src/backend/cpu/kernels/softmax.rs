//! Softmax and its gradient, row by row.

use crate::backend::cpu::simd::{exponential, largest, sum_by};
use crate::backend::cpu::step::Step;
use crate::ops::softmax::Broadcast;
use crate::ops::{Softmax, SoftmaxBackward};
use crate::{Error, Result};

/// `y` contains the row, with masked entries at negative infinity, of which some may be unmasked.
#[inline(always)]
fn weights(y: &mut [f32], any: bool, masked: bool) {
    let most = largest(y);
    if !any || masked && most == f32::NEG_INFINITY {
        return y.fill(0.0);
    }
    for y in y.iter_mut() {
        *y = exponential(*y - most);
    }
    let scale = 1.0 / sum_by([y], |[y]| y);
    for y in y.iter_mut() {
        *y *= scale;
    }
}

/// The entries of rows that a softmax keeps.
pub(super) struct Kept<'a> {
    keep: Option<(Broadcast, &'a [u32])>,
    causal: bool,
    /// Rows of a matrix of `x`.
    queries: usize,
}

impl<'a> Kept<'a> {
    /// Those of a step.
    ///
    /// # Errors
    /// `InvalidArgument` for a mask of another shape or type.
    pub fn of(step: &Step<'a>, op: &Softmax) -> Result<Self> {
        let shape = step.shape(0);
        let queries = shape.0.iter().rev().nth(1).map_or(1, |dim| dim.size(step.counts));
        let keep = if step.given(1) {
            let over = Broadcast::of(shape, step.shape(1))
                .ok_or_else(|| Error::InvalidArgument(format!("softmax: keep has shape {}", step.shape(1))))?;
            Some((over, step.indices(1)?))
        } else {
            None
        };
        Ok(Kept { keep, causal: op.causal, queries })
    }

    /// Sets the other entries of a row to negative infinity; whether the mask keeps any.
    #[inline(always)]
    pub fn hide(&self, row: usize, y: &mut [f32]) -> bool {
        let kept = if self.causal { (row % self.queries + 1).min(y.len()) } else { y.len() };
        y[kept..].fill(f32::NEG_INFINITY);
        let Some((over, keep)) = self.keep else { return true };
        let start = over.start(row);
        let own = |c: usize| keep[start + if over.by_column { c } else { 0 }] != 0;
        for (c, y) in y[..kept].iter_mut().enumerate() {
            *y = if own(c) { *y } else { f32::NEG_INFINITY };
        }
        (0..kept).any(own)
    }
}

pub(super) fn softmax(step: &Step<'_>, op: &Softmax, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let (columns, kept) = (step.shape(0).columns(), Kept::of(step, op)?);
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        y.copy_from_slice(&x[row * columns..][..columns]);
        let any = kept.hide(row, y);
        weights(y, any, op.masked);
    }));
    Ok(())
}

pub(super) fn softmax_backward(step: &Step<'_>, _: &SoftmaxBackward, out: &mut [f32]) -> Result<()> {
    let (g, p) = (step.floats(0)?, step.floats(1)?);
    let columns = step.shape(0).columns();
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        let [g, p] = [g, p].map(|of| &of[row * columns..][..columns]);
        let product = sum_by([g, p], |[g, p]| g * p);
        for ((y, g), p) in y.iter_mut().zip(g).zip(p) {
            *y = p * (g - product);
        }
    }));
    Ok(())
}
