//! Normalisation of rows.

use super::functions::{canonical, div, mul, settle};
use super::sum;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::{Floor, LayerNorm, Normalize, RmsNorm};

/// `y = (x - mean) / sqrt(var + eps) * weight + bias`
pub(super) fn layer_norm(step: &Step<'_>, op: &LayerNorm, out: &mut [f32]) -> Result<()> {
    let (x, weight, bias) = (step.floats(0)?, step.floats(1)?, step.floats(2)?);
    let (columns, eps) = (weight.len(), settle(op.eps));
    let n = columns as f32;
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        let x = &x[row * columns..][..columns];
        let mean = div(sum([x], inlined!(|[x]| settle(x))), n);
        for (d, x) in y.iter_mut().zip(x) {
            *d = settle(*x) - mean;
        }
        let variance = div(sum([&*y], inlined!(|[d]| mul(d, d))), n);
        let factor = div(1.0, (variance + eps).sqrt());
        for ((y, w), b) in y.iter_mut().zip(weight).zip(bias) {
            *y = canonical(mul(mul(*y, factor), settle(*w)) + settle(*b));
        }
    }));
    Ok(())
}

/// `y = x / sqrt(mean(x^2) + eps) * weight`
pub(super) fn rms_norm(step: &Step<'_>, op: &RmsNorm, out: &mut [f32]) -> Result<()> {
    let (x, weight) = (step.floats(0)?, step.floats(1)?);
    let (columns, eps) = (weight.len(), settle(op.eps));
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        let x = &x[row * columns..][..columns];
        let factor = div(1.0, (div(squares(x), columns as f32) + eps).sqrt());
        for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
            *y = canonical(mul(mul(settle(*x), factor), settle(*w)));
        }
    }));
    Ok(())
}

/// `y = x / max(||x||, eps)` or `x / (||x|| + eps)`
pub(super) fn normalize(step: &Step<'_>, op: &Normalize, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let (columns, eps) = (step.shape(0).columns(), settle(op.eps));
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        let x = &x[row * columns..][..columns];
        let norm = squares(x).sqrt();
        let divisor = match op.floor {
            Floor::Max if norm < eps => eps,
            Floor::Max => norm,
            Floor::Add => norm + eps,
        };
        for (y, x) in y.iter_mut().zip(x) {
            *y = canonical(div(settle(*x), divisor));
        }
    }));
    Ok(())
}

/// Sum of the squares of a row.
#[inline(always)]
fn squares(x: &[f32]) -> f32 {
    sum(
        [x],
        inlined!(|[x]| {
            let x = settle(x);
            mul(x, x)
        }),
    )
}
