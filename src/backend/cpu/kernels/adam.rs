//! One step of Adam, elementwise, in place.
//!
//! Numbers whose squares or quotients leave float32 take the order of torch's operations, so that a step is finite where
//! it is there; all others keep the order of the formula.

use crate::backend::cpu::step::Step;
use crate::ops::Adam;
use crate::{Error, Result};

/// Minimum elements per thread.
const LEAST: usize = 1 << 13;
/// Elements that are looked at together for numbers out of the range.
const BLOCK: usize = 64;

pub(super) fn adam(step: &Step<'_>, op: &Adam, results: &mut [&mut [f32]]) -> Result<()> {
    let (g, rates) = (step.floats(3)?, step.floats(4)?);
    let ([parameter, m, v], &[rate, c1, c2]) = (results, rates) else {
        return Err(Error::InvalidArgument("adam: expected three results and three rates".into()));
    };
    let factor = if step.given(5) { step.floats(5)?[0] } else { 1.0 };
    if factor.is_nan() {
        return Ok(());
    }
    let gradients = Gradients { given: g, parameter, factor, coupled: op.coupled };
    gradients.decay(step, m, inlined!(|m, g| mean(op.beta1, m, g)));
    gradients.decay(step, v, inlined!(|v, g| square(op.beta2, v, g)));
    let (m, v) = (&**m, &**v);
    let moved = Moved { rate, c1, c2, size: rate / c1, root: c2.sqrt(), eps: op.eps, decay: op.decay };
    step.rows(parameter, 1, LEAST).vectorized(inlined!(|first, part| {
        let moments = m[first..].chunks(BLOCK).zip(v[first..].chunks(BLOCK));
        for (p, (m, v)) in part.chunks_mut(BLOCK).zip(moments) {
            moved.block(p, m, v);
        }
    }));
    Ok(())
}

/// The gradients of a step, before their parameters move.
struct Gradients<'a> {
    given: &'a [f32],
    parameter: &'a [f32],
    factor: f32,
    coupled: f32,
}

impl Gradients<'_> {
    /// Replaces each number of a moment by `next` of it and the gradient.
    fn decay(&self, step: &Step<'_>, moment: &mut [f32], next: impl Fn(f32, f32) -> f32 + Sync) {
        step.rows(moment, 1, LEAST).vectorized(inlined!(|first, part| {
            let gradients = self.given[first..].iter().zip(&self.parameter[first..]);
            for (moment, (g, parameter)) in part.iter_mut().zip(gradients) {
                let own = self.factor * g;
                let own = if self.coupled == 0.0 { own } else { own + self.coupled * parameter };
                *moment = next(*moment, own);
            }
        }));
    }
}

/// The mean gradient: `beta m + (1 - beta) g`, or torch's form of it where `g - m` is not finite.
#[inline(always)]
fn mean(beta: f32, m: f32, g: f32) -> f32 {
    let (gap, share) = (g - m, 1.0 - beta);
    let far = if share < 0.5 { m + share * gap } else { g - gap * beta };
    if gap.is_finite() { beta * m + share * g } else { far }
}

/// The mean squared gradient: `beta v + (1 - beta) g^2`; the square of a large gradient alone may be infinite.
#[inline(always)]
fn square(beta: f32, v: f32, g: f32) -> f32 {
    let (share, square) = (1.0 - beta, g * g);
    let term = if square.is_finite() { share * square } else { share * g * g };
    beta * v + term
}

/// The step of parameters by their moments.
struct Moved {
    rate: f32,
    c1: f32,
    c2: f32,
    /// `rate / c1`
    size: f32,
    /// `sqrt(c2)`
    root: f32,
    eps: f32,
    decay: f32,
}

impl Moved {
    /// `p - rate (m / c1 / (sqrt(v / c2) + eps) + decay p)`, of at most `BLOCK` elements.
    #[inline(always)]
    fn block(&self, p: &mut [f32], m: &[f32], v: &[f32]) {
        let (mut new, mut most) = ([0.0; BLOCK], 0);
        for (((new, p), m), v) in new.iter_mut().zip(&*p).zip(m).zip(v) {
            let square = v / self.c2;
            *new = p - self.rate * (m / self.c1 / (square.sqrt() + self.eps) + self.decay * p);
            most = most.max(magnitude(*new)).max(magnitude(square)).max(magnitude(self.size * m));
        }
        if most < magnitude(f32::INFINITY) {
            let elements = p.len();
            p.copy_from_slice(&new[..elements]);
            return;
        }
        for (((new, p), m), v) in new.iter().zip(p).zip(m).zip(v) {
            let bounded = [*new, v / self.c2, self.size * m].iter().all(|x| x.is_finite());
            *p = if bounded { *new } else { self.far(*p, *m, *v) };
        }
    }

    /// The same in the order of torch's operations.
    #[inline(always)]
    fn far(&self, p: f32, m: f32, v: f32) -> f32 {
        let kept = if self.decay == 0.0 { p } else { p * (1.0 - self.rate * self.decay) };
        kept - self.size * m / (v.sqrt() / self.root + self.eps)
    }
}

/// The bits of a number without its sign, which rise with it; those of infinity and NaN are the largest.
#[inline(always)]
fn magnitude(x: f32) -> u32 {
    x.to_bits() & 0x7fff_ffff
}
