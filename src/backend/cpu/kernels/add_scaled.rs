//! A multiple of an array, added to another in place.

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::AddScaled;

/// Minimum elements per thread.
const LEAST: usize = 1 << 13;

pub(super) fn add_scaled(step: &Step<'_>, _: &AddScaled, out: &mut [f32]) -> Result<()> {
    let (x, factor) = (step.floats(1)?, step.floats(2)?[0]);
    step.rows(out, 1, LEAST).vectorized(inlined!(|first, part| {
        part.iter_mut().zip(&x[first..]).for_each(|(total, x)| *total += factor * x);
    }));
    Ok(())
}
