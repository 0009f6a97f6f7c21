//! `y = x / sqrt(mean(x^2) + eps) * weight` and its gradient, row by row.

use crate::Result;
use crate::backend::cpu::simd::sum_by;
use crate::backend::cpu::step::Step;
use crate::ops::{RmsNorm, RmsNormBackward};

pub(super) fn rms_norm(step: &Step<'_>, op: &RmsNorm, out: &mut [f32]) -> Result<()> {
    let (x, weight) = (step.floats(0)?, step.floats(1)?);
    let columns = weight.len();
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        y.copy_from_slice(&x[row * columns..][..columns]);
        normalize(op, weight, y);
    }));
    Ok(())
}

/// A row in place.
#[inline(always)]
pub(super) fn normalize(op: &RmsNorm, weight: &[f32], row: &mut [f32]) {
    let scale = 1.0 / (sum_by([&*row], |[x]| x * x) / row.len() as f32 + op.eps).sqrt();
    for (x, w) in row.iter_mut().zip(weight) {
        *x = *x * scale * w;
    }
}

pub(super) fn rms_norm_backward(step: &Step<'_>, op: &RmsNormBackward, out: &mut [f32]) -> Result<()> {
    let (g, x, weight) = (step.floats(0)?, step.floats(1)?, step.floats(2)?);
    let columns = weight.len();
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        let [g, x] = [g, x].map(|of| &of[row * columns..][..columns]);
        let scale = 1.0 / (sum_by([x], |[x]| x * x) / columns as f32 + op.0.eps).sqrt();
        let product = sum_by([g, x, weight], |[g, x, w]| g * w * x) / columns as f32;
        let slope = product * scale * scale;
        for (((y, g), x), w) in y.iter_mut().zip(g).zip(x).zip(weight) {
            *y = (g * w - x * slope) * scale;
        }
    }));
    Ok(())
}
