//! `y = -(t max(log p, -100) + (1 - t) max(log(1 - p), -100))`

use crate::Result;
use crate::backend::cpu::simd::{logarithm, logarithm_of_rest};
use crate::backend::cpu::step::Step;
use crate::ops::BinaryCrossEntropy;

pub(super) fn binary_cross_entropy(step: &Step<'_>, _: &BinaryCrossEntropy, out: &mut [f32]) -> Result<()> {
    let (p, t) = (step.floats(0)?, step.floats(1)?);
    // The comparison is false for NaN, which is preserved.
    let bounded = |log: f32| if log < -100.0 { -100.0 } else { log };
    step.rows(out, 1, 1024).vectorized(inlined!(|first, part| {
        for ((y, p), t) in part.iter_mut().zip(&p[first..]).zip(&t[first..]) {
            *y = -(t * bounded(logarithm(*p)) + (1.0 - t) * bounded(logarithm_of_rest(*p)));
        }
    }));
    Ok(())
}
