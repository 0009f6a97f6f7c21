//! The floats around products of integers, whose sums are exact.
//!
//! `settle(x)` is `+0` below 2^-100, as everywhere in the mode, `normal(x)` below 2^-126; every operation is rounded once.
//!
//! `quantize_rows`: elements are settled, and with factors the settled product of both. The scale is `127 / max(max |x|, 1e-5)`,
//! of the affine kind `127.5 / max(max(x, 0) / 2 - min(x, 0) / 2, 5e-6)`, of ternary values and signs `n / max(sum |x|, 1e-5 n)`,
//! `n` in float32, with the sum in the order of `quantize_rows.rs`; NaN as the op says. `x scale` is rounded to the nearest
//! integer, ties to even, or at random after it is settled.
//!
//! `quantized_linear`: `y = settle(settle(float(sum) (1 / weight_scale)) (1 / scale))`, groups added before the second product from
//! the first to the last, then `+ settle(bias)`, the activation of a settled number, and `settle(y) + settle(residual)`; the
//! reciprocal of a scale is `normal(1 / normal(scale))`. `dequantize_rows`: `settle(float(x - zero) / normal(scale))`.
//! A weight is rounded on the host, when it is read, with the same scales; the sums of ternary values and signs are in float64
//! there, from the first element of a row, then rows, to the last.

use super::functions::{activate, canonical, mul, settle};
use crate::backend::cpu::kernels::functions::Floats;
use crate::backend::cpu::simd::Arch;
use crate::ops::{Activation, ActivationKind};

/// Those that every processor has. Scales are read and inverted as they are, but for subnormal ones, which are 0: the scale of a
/// row of large numbers is below 2^-100.
pub(super) struct Same;

/// `+0` for subnormal numbers.
#[inline(always)]
fn normal(x: f32) -> f32 {
    if x.to_bits() & 0x7fff_ffff < 0x0080_0000 { 0.0 } else { x }
}

impl Floats for Same {
    #[inline(always)]
    fn read(x: f32) -> f32 {
        settle(x)
    }

    #[inline(always)]
    fn product(a: f32, b: f32) -> f32 {
        mul(a, b)
    }

    #[inline(always)]
    fn reciprocal(x: f32) -> f32 {
        normal(1.0 / normal(x))
    }

    #[inline(always)]
    fn quotient(a: f32, b: f32) -> f32 {
        canonical(settle(a / normal(b)))
    }

    #[inline(always)]
    fn stored(x: f32) -> f32 {
        canonical(x)
    }

    fn activate(arch: Arch, function: &Activation, values: &mut [f32]) {
        if function.kind != ActivationKind::Identity {
            arch.vectorized(inlined!(|| activate(function, values)));
        }
    }
}
