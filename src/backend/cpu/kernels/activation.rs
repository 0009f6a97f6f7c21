//! `y = act(x)`, and its gradient.

use super::functions::{activate, times_slope};
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::{Activation, ActivationBackward};

pub(super) fn activation(step: &Step<'_>, op: &Activation, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    step.team.rows(out, 1, 4096, |first, part| {
        part.copy_from_slice(&x[first..first + part.len()]);
        activate(step.arch, op, part);
    });
    Ok(())
}

/// `y = g act'(x)`
pub(super) fn activation_backward(step: &Step<'_>, op: &ActivationBackward, out: &mut [f32]) -> Result<()> {
    let (g, x) = (step.floats(0)?, step.floats(1)?);
    step.team.rows(out, 1, 4096, |first, part| {
        part.copy_from_slice(&g[first..first + part.len()]);
        times_slope(step.arch, &op.0, &x[first..first + part.len()], part);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::{Operand, archs, assert_close, erf, numbers, run};
    use crate::ops::{ActivationKind, Counts, Dim, Op, Shape};

    const EPS: f64 = f32::EPSILON as f64;

    /// The value in float64, and the amplification of the argument's own rounding, in units of the result.
    fn reference(kind: ActivationKind, x: f64) -> (f64, f64) {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match kind {
            ActivationKind::Identity => (x, 0.0),
            ActivationKind::GeluErf => (x * phi(x), x * x),
            ActivationKind::GeluTanh => {
                let twice = 1.5957691216057308 * (x + 0.044715 * x * x * x);
                (x * sigmoid(twice), 2.0 * twice.abs())
            }
            ActivationKind::Relu => (if x < 0.0 { 0.0 } else { x }, 0.0),
            ActivationKind::Silu => (x * sigmoid(x), 0.0),
            ActivationKind::Tanh => (x.tanh(), 0.0),
            ActivationKind::Sigmoid => (sigmoid(x), 0.0),
            ActivationKind::QuickGelu => (x * sigmoid(1.702 * x), 1.702 * x.abs()),
            other => unreachable!("{other:?} is not among KINDS"),
        }
    }

    fn phi(x: f64) -> f64 {
        let z = -x * std::f64::consts::FRAC_1_SQRT_2;
        if z < 3.0 {
            return (1.0 - erf(z)) / 2.0;
        }
        let mut fraction = 0.0;
        for n in (1..200).rev() {
            fraction = n as f64 / 2.0 / (z + fraction);
        }
        (-z * z).exp() / (z + fraction) * std::f64::consts::FRAC_2_SQRT_PI / 4.0
    }

    const KINDS: [ActivationKind; 8] = [
        ActivationKind::Identity,
        ActivationKind::GeluErf,
        ActivationKind::GeluTanh,
        ActivationKind::Relu,
        ActivationKind::Silu,
        ActivationKind::Tanh,
        ActivationKind::Sigmoid,
        ActivationKind::QuickGelu,
    ];

    #[test]
    fn activations_are_within_a_few_roundings_of_float64() {
        let mut x: Vec<f32> = (-20_000..=20_000).map(|i| i as f32 * 6.1e-4).collect();
        x.extend((-60..60).flat_map(|e| [2f32.powi(e), -(2f32.powi(e)), 1.7 * 2f32.powi(e)]));
        x.extend(numbers(1001, 5));
        x.extend([0.0, -0.0, f32::NAN, f32::INFINITY, f32::MIN_POSITIVE, 1e-44, 88.9, -88.9, -104.5]);
        for arch in archs() {
            for kind in KINDS {
                let y = run(
                    Activation::from(kind),
                    &[Operand::Floats(Shape::vector(Dim::Fixed(x.len())), &x)],
                    Counts::default(),
                    arch,
                );
                let (expected, amplified): (Vec<f64>, Vec<f64>) =
                    x.iter().map(|x| reference(kind, f64::from(*x))).unzip();
                // Four roundings of the formula itself; erf within a unit of its last place, which in the negative tail
                // outgrows the result; and results below the normal range keep their absolute grid.
                let erf = if kind == ActivationKind::GeluErf { 0.5 * EPS } else { 0.0 };
                assert_close(&y, &expected, &format!("{kind:?} {arch:?}"), |i| {
                    let x = f64::from(x[i]).abs();
                    (4.0 + amplified[i]) * EPS * expected[i].abs() + erf * x + 2e-38 * x.clamp(1e-7, 1.0)
                });
            }
        }
    }

    /// All activations, with parameters that are neither 0 nor 1.
    fn all() -> impl Iterator<Item = Activation> {
        let others = [
            ActivationKind::Softplus,
            ActivationKind::Gcu,
            ActivationKind::LeakyRelu,
            ActivationKind::Roswish,
            ActivationKind::Sqrt,
            ActivationKind::Exp,
            ActivationKind::Log,
        ];
        KINDS.into_iter().chain(others).map(|kind| Activation { kind, a: 0.7, b: 1.3 })
    }

    #[test]
    fn an_element_has_the_same_bits_at_any_place() {
        const N: usize = 200;
        let (mut x, g) = (numbers(N, 6), numbers(N, 7));
        // An angle that needs a more careful reduction.
        x[N - 3] = 3e6;
        for arch in archs() {
            let bits = |op: Op, from: usize, count: usize| {
                let shape = Shape::vector(Dim::Fixed(count));
                let [g, x] = [&g, &x].map(|v| Operand::Floats(shape.clone(), &v[from..from + count]));
                let operands = if matches!(op, Op::ActivationBackward(_)) { vec![g, x] } else { vec![x] };
                run(op, &operands, Counts::default(), arch).iter().map(|y| y.to_bits()).collect::<Vec<_>>()
            };
            for op in all().flat_map(|f| [Op::from(f.clone()), Op::from(ActivationBackward(f))]) {
                let together = bits(op.clone(), 0, N);
                for n in [1, 2, 7, 15, 16, 17, 31, 33, 65] {
                    assert_eq!(bits(op.clone(), N - n, n), together[N - n..], "{op:?} {arch:?}");
                }
            }
        }
    }
}
