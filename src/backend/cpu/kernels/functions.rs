//! The nonlinearities and their derivatives, computed in float64 and rounded once: what `simd::activate` has not.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use crate::backend::cpu::simd;
use crate::backend::cpu::simd::Arch;
use crate::ops::{Activation, ActivationKind};

/// `values = act(values)`
pub(super) fn activate(arch: Arch, function: &Activation, values: &mut [f32]) {
    if function.kind.ends_linear() {
        return arch.dispatch(Elements { kind: function.kind, values });
    }
    let (a, b) = (f64::from(function.a), f64::from(function.b));
    // One loop a function, each without a branch on the kind.
    let map = |values: &mut [f32], f: fn(f64, f64, f64) -> f64| {
        values.iter_mut().for_each(|x| *x = f(f64::from(*x), a, b) as f32);
    };
    match function.kind {
        ActivationKind::Softplus => map(values, |x, _, _| or_nan(x, x.max(0.0) + (-x.abs()).exp().ln_1p())),
        ActivationKind::Gcu => map(values, |x, _, _| x * x.cos()),
        ActivationKind::LeakyRelu => map(values, |x, a, _| if x < 0.0 { a * x } else { x }),
        ActivationKind::Roswish => map(values, |x, a, b| (x + a) * sigmoid(b * x) - a / 2.0),
        ActivationKind::Sqrt => map(values, |x, _, _| x.sqrt()),
        ActivationKind::Exp => map(values, |x, _, _| x.exp()),
        ActivationKind::Log => map(values, |x, _, _| x.ln()),
        kind => unreachable!("{kind:?} ends products"),
    }
}

/// `act'(x)`; 0 at the corner of relu and `a` at that of leaky relu.
pub(super) fn slope(function: &Activation, x: f32) -> f64 {
    let (x, a, b) = (f64::from(x), f64::from(function.a), f64::from(function.b));
    match function.kind {
        ActivationKind::Identity => 1.0,
        ActivationKind::GeluErf => {
            (1.0 + erf(x * FRAC_1_SQRT_2)) / 2.0 + x * (-x * x / 2.0).exp() * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2 / 2.0)
        }
        ActivationKind::GeluTanh => {
            let scale = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
            let s = sigmoid(2.0 * scale * (x + 0.044715 * x * x * x));
            // (1 + tanh u) / 2 is sigmoid(2 u).
            s + 2.0 * x * s * (1.0 - s) * scale * (1.0 + 3.0 * 0.044715 * x * x)
        }
        ActivationKind::Relu => or_nan(x, if x > 0.0 { 1.0 } else { 0.0 }),
        ActivationKind::LeakyRelu => or_nan(x, if x > 0.0 { 1.0 } else { a }),
        ActivationKind::Silu => swish_slope(x, 0.0, 1.0),
        ActivationKind::QuickGelu => swish_slope(x, 0.0, 1.702),
        ActivationKind::Roswish => swish_slope(x, a, b),
        ActivationKind::Tanh => 4.0 * sigmoid(2.0 * x) * sigmoid(-2.0 * x),
        ActivationKind::Sigmoid => sigmoid(x) * sigmoid(-x),
        ActivationKind::Softplus => sigmoid(x),
        ActivationKind::Gcu => x.cos() - x * x.sin(),
        ActivationKind::Sqrt => 0.5 / x.sqrt(),
        ActivationKind::Exp => x.exp(),
        ActivationKind::Log => 1.0 / x,
    }
}

/// Derivative of `(x + a) sigmoid(b x)`.
fn swish_slope(x: f64, a: f64, b: f64) -> f64 {
    let s = sigmoid(b * x);
    s + b * (x + a) * s * (1.0 - s)
}

fn sigmoid(x: f64) -> f64 {
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// NaN for NaN, which `f64::max` and comparisons drop.
fn or_nan(x: f64, y: f64) -> f64 {
    if x.is_nan() { x } else { y }
}

/// Within 3e-8: the polynomials of `shaders/include/numbers.glsl`.
fn erf(x: f64) -> f64 {
    let t = x.abs().min(6.0);
    let polynomial = |x: f64, c: &[f64]| c[1..].iter().fold(c[0], |sum, c| sum * x + c);
    let y = if t <= 0.92 {
        let near = [-5.955112335e-4, 4.986210243e-3, -2.676190378e-2, 1.12816876e-1, -3.761248158e-1, 1.283791478e-1];
        t + t * polynomial(t * t, &near)
    } else {
        let far = [
            -1.123129675e-5,
            3.228037243e-4,
            -3.642458369e-3,
            2.376206135e-2,
            -1.062368757e-1,
            -6.351513176e-1,
            -1.12864849,
        ];
        1.0 - (t.min(4.0) * polynomial(t.min(4.0), &far)).exp()
    };
    or_nan(x, y.copysign(x))
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
