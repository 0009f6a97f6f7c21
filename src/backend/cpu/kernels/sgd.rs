//! One step of gradient descent with momentum, elementwise, in place.

use crate::backend::cpu::step::Step;
use crate::ops::Sgd;
use crate::{Error, Result};

/// Minimum elements per thread.
const LEAST: usize = 1 << 13;

pub(super) fn sgd(step: &Step<'_>, op: &Sgd, results: &mut [&mut [f32]]) -> Result<()> {
    let (g, rate) = (step.floats(2)?, step.floats(3)?[0]);
    let factor = if step.given(4) { step.floats(4)?[0] } else { 1.0 };
    let [parameter, m] = results else { return Err(Error::InvalidArgument("sgd: expected two results".into())) };
    if factor.is_nan() {
        return Ok(());
    }
    let old = &**parameter;
    step.rows(m, 1, LEAST).vectorized(inlined!(|first, part| {
        for ((m, g), old) in part.iter_mut().zip(&g[first..]).zip(&old[first..]) {
            *m = op.momentum * *m + (factor * g + op.decay * old);
        }
    }));
    let m = &**m;
    step.rows(parameter, 1, LEAST).vectorized(inlined!(|first, part| {
        part.iter_mut().zip(&m[first..]).for_each(|(p, m)| *p -= rate * m);
    }));
    Ok(())
}
