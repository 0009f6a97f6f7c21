//! Softmax, row by row.

use super::functions::{canonical, div, exponential, mul, nan_max, settle};
use super::sum;
use crate::Result;
use crate::backend::cpu::kernels::softmax::Kept;
use crate::backend::cpu::step::Step;
use crate::ops::Softmax;

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

/// `y` contains the row, with masked entries at negative infinity, of which some may be unmasked.
#[inline(always)]
fn weights(y: &mut [f32], any: bool, masked: bool) {
    let most = y.iter().fold(f32::NEG_INFINITY, |most, y| nan_max(most, settle(*y)));
    if !any || masked && most == f32::NEG_INFINITY {
        return y.fill(0.0);
    }
    for y in y.iter_mut() {
        *y = exponential(settle(*y) - most);
    }
    let scale = div(1.0, sum([&*y], inlined!(|[y]| y)));
    for y in y.iter_mut() {
        *y = canonical(mul(*y, scale));
    }
}
