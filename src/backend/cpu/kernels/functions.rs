//! The nonlinearities and their derivatives, element by element.

use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use crate::backend::cpu::simd;
use crate::backend::cpu::simd::{Arch, MOST_ANGLE, error_function, exponential, logarithm, logistic, softplus, turned};
use crate::ops::{Activation, ActivationKind};

/// `sqrt(2 / pi)`
const SCALE: f32 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// Elements that are checked together for angles that are too large.
const BLOCK: usize = 64;

/// `values = act(values)`
pub(super) fn activate(arch: Arch, function: &Activation, values: &mut [f32]) {
    use ActivationKind::*;
    /// One loop per function, each without a branch on the kind.
    macro_rules! map {
        ($x:ident => $y:expr) => {
            arch.vectorized(inlined!(|| {
                for value in values.iter_mut() {
                    let $x = *value;
                    *value = $y;
                }
            }))
        };
    }
    let (a, b) = (function.a, function.b);
    match function.kind {
        kind if kind.ends_linear() => arch.dispatch(Elements { kind, values }),
        Softplus => map!(x => softplus(x)),
        Gcu => arch.vectorized(inlined!(|| {
            for values in values.chunks_mut(BLOCK) {
                let mut x = [0.0; BLOCK];
                let x = &mut x[..values.len()];
                x.copy_from_slice(values);
                with_angles(values, x, inlined!(|y, x, (_, cosine)| *y = (x * cosine) as f32));
            }
        })),
        LeakyRelu => map!(x => if x < 0.0 { a * x } else { x }),
        Roswish => map!(x => (x + a) * logistic(b * x) - a / 2.0),
        Sqrt => map!(x => x.sqrt()),
        Exp => map!(x => exponential(x)),
        Log => map!(x => logarithm(x)),
        kind => unreachable!("{kind:?} ends products"),
    }
}

/// `values *= act'(x)`; at the corner the derivative is 0 for relu and `a` for leaky relu.
pub(super) fn times_slope(arch: Arch, function: &Activation, x: &[f32], values: &mut [f32]) {
    use ActivationKind::*;
    /// As above.
    macro_rules! map {
        ($x:ident => $slope:expr) => {
            arch.vectorized(inlined!(|| {
                for (y, x) in values.iter_mut().zip(x) {
                    let $x = *x;
                    *y *= $slope;
                }
            }))
        };
    }
    let (a, b) = (function.a, function.b);
    match function.kind {
        Identity => {}
        GeluErf => map!(x => {
            let distribution = (1.0 + error_function(x * FRAC_1_SQRT_2)) * 0.5;
            distribution + x * exponential(-0.5 * x * x) * (SCALE / 2.0)
        }),
        GeluTanh => map!(x => gelu_tanh_slope(x)),
        Relu => map!(x => or_nan(x, if x > 0.0 { 1.0 } else { 0.0 })),
        LeakyRelu => map!(x => or_nan(x, if x > 0.0 { 1.0 } else { a })),
        Silu => map!(x => swish_slope(x, 0.0, 1.0)),
        QuickGelu => map!(x => swish_slope(x, 0.0, 1.702)),
        Roswish => map!(x => swish_slope(x, a, b)),
        Tanh => map!(x => 4.0 * logistic(2.0 * x) * logistic(-2.0 * x)),
        Sigmoid => map!(x => logistic(x) * logistic(-x)),
        Softplus => map!(x => logistic(x)),
        Gcu => arch.vectorized(inlined!(|| {
            for (values, x) in values.chunks_mut(BLOCK).zip(x.chunks(BLOCK)) {
                with_angles(
                    values,
                    x,
                    inlined!(|y, x, (sine, cosine)| *y = (f64::from(*y) * (cosine - x * sine)) as f32),
                );
            }
        })),
        Sqrt => map!(x => 0.5 / x.sqrt()),
        Exp => map!(x => exponential(x)),
        Log => map!(x => 1.0 / x),
    }
}

/// `use_it(y, x, (sin x, cos x))` for every element.
#[expect(clippy::disallowed_methods, reason = "of `gcu`, which has the numbers of its device")]
#[inline(always)]
fn with_angles(y: &mut [f32], x: &[f32], use_it: impl Fn(&mut f32, f64, (f64, f64))) {
    let large = |x: f32| x.abs() > MOST_ANGLE;
    let pairs = y.iter_mut().zip(x);
    if x.iter().fold(false, |any, x| any | large(*x)) {
        for (y, x) in pairs {
            let wide = f64::from(*x);
            use_it(y, wide, if large(*x) { wide.sin_cos() } else { turned(wide) });
        }
    } else {
        for (y, x) in pairs {
            let wide = f64::from(*x);
            use_it(y, wide, turned(wide));
        }
    }
}

/// `sigmoid(2 u)` is `(1 + tanh u) / 2`; from `|x| = 20` on the second term is 0, and a square could overflow.
#[inline(always)]
fn gelu_tanh_slope(x: f32) -> f32 {
    let t = if x.is_infinite() { x } else { x.clamp(-20.0, 20.0) };
    let s = t * t;
    let twice = 2.0 * SCALE * (t + 0.044_715 * s * t);
    let y = logistic(twice);
    y + t * (y * logistic(-twice)) * (2.0 * SCALE * (1.0 + 3.0 * 0.044_715 * s))
}

/// Derivative of `(x + a) sigmoid(b x)`.
#[inline(always)]
fn swish_slope(x: f32, a: f32, b: f32) -> f32 {
    let s = logistic(b * x);
    s + b * (x + a) * s * logistic(-b * x)
}

/// NaN for NaN, which comparisons would drop.
#[inline(always)]
fn or_nan(x: f32, y: f32) -> f32 {
    if x.is_nan() { x } else { y }
}

struct Elements<'a> {
    kind: ActivationKind,
    values: &'a mut [f32],
}

impl pulp::WithSimd for Elements<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        simd::activate(simd, self.kind, self.values);
    }
}

/// The floats around sums of integers.
pub(super) trait Floats {
    /// An operand as an operation reads it.
    fn read(x: f32) -> f32;

    /// `a b` of numbers that are read.
    fn product(a: f32, b: f32) -> f32;

    /// `1 / x` of a scale.
    fn reciprocal(x: f32) -> f32;

    /// `a / b` of an integer and a scale, as a result is stored.
    fn quotient(a: f32, b: f32) -> f32;

    /// A number as a result is stored.
    fn stored(x: f32) -> f32;

    /// Applies a function to results.
    fn activate(arch: Arch, function: &Activation, values: &mut [f32]);
}

/// Those of this processor.
pub(super) struct Own;

impl Floats for Own {
    #[inline(always)]
    fn read(x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn product(a: f32, b: f32) -> f32 {
        a * b
    }

    #[inline(always)]
    fn reciprocal(x: f32) -> f32 {
        1.0 / x
    }

    #[inline(always)]
    fn quotient(a: f32, b: f32) -> f32 {
        a / b
    }

    #[inline(always)]
    fn stored(x: f32) -> f32 {
        x
    }

    fn activate(arch: Arch, function: &Activation, values: &mut [f32]) {
        activate(arch, function, values);
    }
}
