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

pub(super) fn softmax(step: &Step<'_>, op: &Softmax, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let shape = step.shape(0);
    let columns = shape.columns();
    let queries = shape.0.iter().rev().nth(1).map_or(1, |dim| dim.size(step.counts));
    let keep = if step.given(1) {
        let over = Broadcast::of(shape, step.shape(1))
            .ok_or_else(|| Error::InvalidArgument(format!("softmax: keep has shape {}", step.shape(1))))?;
        Some((over, step.indices(1)?))
    } else {
        None
    };
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        y.copy_from_slice(&x[row * columns..][..columns]);
        let kept = if op.causal { (row % queries + 1).min(columns) } else { columns };
        y[kept..].fill(f32::NEG_INFINITY);
        let mut any = true;
        if let Some((over, keep)) = keep {
            let start = over.start(row);
            let own = |c: usize| keep[start + if over.by_column { c } else { 0 }] != 0;
            any = (0..kept).any(own);
            for (c, y) in y[..kept].iter_mut().enumerate() {
                *y = if own(c) { *y } else { f32::NEG_INFINITY };
            }
        }
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
