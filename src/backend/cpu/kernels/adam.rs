//! One step of Adam, elementwise, in place.

use crate::backend::cpu::step::Step;
use crate::ops::Adam;
use crate::{Error, Result};

/// Minimum elements per thread.
const LEAST: usize = 1 << 13;

pub(super) fn adam(step: &Step<'_>, op: &Adam, results: &mut [&mut [f32]]) -> Result<()> {
    let (g, rates) = (step.floats(3)?, step.floats(4)?);
    let ([parameter, m, v], &[rate, c1, c2]) = (results, rates) else {
        return Err(Error::InvalidArgument("adam: expected three results and three rates".into()));
    };
    let factor = if step.given(5) { step.floats(5)?[0] } else { 1.0 };
    if factor.is_nan() {
        return Ok(());
    }
    let old = &**parameter;
    let decayed = |mean: &mut [f32], beta: f32, term: fn(f32) -> f32| {
        step.rows(mean, 1, LEAST).vectorized(inlined!(|first, part| {
            for ((mean, g), old) in part.iter_mut().zip(&g[first..]).zip(&old[first..]) {
                let own = factor * g;
                let own = if op.coupled == 0.0 { own } else { own + op.coupled * old };
                *mean = beta * *mean + (1.0 - beta) * term(own);
            }
        }));
    };
    decayed(m, op.beta1, |g| g);
    decayed(v, op.beta2, |g| g * g);
    let (m, v) = (&**m, &**v);
    step.rows(parameter, 1, LEAST).vectorized(inlined!(|first, part| {
        for ((p, m), v) in part.iter_mut().zip(&m[first..]).zip(&v[first..]) {
            *p -= rate * (m / c1 / ((v / c2).sqrt() + op.eps) + op.decay * *p);
        }
    }));
    Ok(())
}
