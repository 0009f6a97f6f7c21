//! The norm of gradients and the factor that limits it, elementwise.

use crate::backend::cpu::step::Step;
use crate::ops::ClipNorm;
use crate::ops::clip_norm::EPS;
use crate::{Error, Result};

/// Minimum elements per thread.
const LEAST: usize = 1 << 12;

pub(super) fn clip_norm(step: &Step<'_>, _: &ClipNorm, results: &mut [&mut [f32]]) -> Result<()> {
    let (squares, most) = (step.floats(0)?, step.floats(1)?[0]);
    let unscale = if step.given(2) { step.floats(2)?[0] } else { 1.0 };
    let [norm, factor] = results else { return Err(Error::InvalidArgument("clip_norm: expected two results".into())) };
    step.rows(norm, 1, LEAST).vectorized(inlined!(|first, part| {
        part.iter_mut().zip(&squares[first..]).for_each(|(norm, sum)| *norm = sum.sqrt() * unscale);
    }));
    let norm = &**norm;
    step.rows(factor, 1, LEAST).vectorized(inlined!(|first, part| {
        for (factor, norm) in part.iter_mut().zip(&norm[first..]) {
            let limited = unscale * (1.0 / ((norm + EPS) / most).max(1.0));
            *factor = if norm.is_finite() { limited } else { f32::NAN };
        }
    }));
    Ok(())
}
