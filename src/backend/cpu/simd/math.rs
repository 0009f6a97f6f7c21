//! Elementary functions of vectors, within 1 to 2 units in the last place unless they say otherwise; NaN gives NaN.

use pulp::Simd;

use crate::ops::ActivationKind;

/// `c[0] x^(n-1) + ... + c[n-1]`
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(simd: S, x: S::f32s, coefficients: [f32; N]) -> S::f32s {
    let mut y = simd.splat_f32s(coefficients[0]);
    for c in &coefficients[1..] {
        y = simd.mul_add_f32s(y, x, simd.splat_f32s(*c));
    }
    y
}

/// `e^x`; 0 below -104, infinite above 88.73, denormal results included.
///
/// `x = n ln 2 + r`, `|r| <= ln 2 / 2`, a polynomial of degree 6 for `e^r` (least maximum error), then two steps of
/// `2^(n/2)` so that neither factor leaves the range of normal numbers.
#[inline(always)]
pub fn exp<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer, held in the low bits
    let bounded = simd.min_f32s(simd.max_f32s(x, simd.splat_f32s(-104.0)), simd.splat_f32s(89.0));
    let shifted = simd.mul_add_f32s(bounded, simd.splat_f32s(std::f32::consts::LOG2_E), simd.splat_f32s(MAGIC));
    let n = simd.sub_f32s(shifted, simd.splat_f32s(MAGIC));
    // ln 2 in two parts; n times the first is exact.
    let r = simd.mul_add_f32s(n, simd.splat_f32s(-355.0 / 512.0), bounded);
    let r = simd.mul_add_f32s(n, simd.splat_f32s(2.121_944_4e-4), r);
    let p =
        polynomial(simd, r, [1.378_059_4e-3, 8.373_124_5e-3, 4.166_953_6e-2, 1.666_647_2e-1, 4.999_998_5e-1, 1.0, 1.0]);
    // n + 300 is positive, so halving it is a shift.
    let raised = simd.sub_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(MAGIC.to_bits() - 300));
    let half = simd.wrapping_dyn_shr_u32s(raised, simd.splat_u32s(1));
    let other = simd.sub_u32s(raised, half);
    let power = |e: S::u32s| {
        let biased = simd.sub_u32s(e, simd.splat_u32s(150 - 127));
        simd.transmute_f32s_u32s(simd.wrapping_dyn_shl_u32s(biased, simd.splat_u32s(23)))
    };
    let y = simd.mul_f32s(simd.mul_f32s(p, power(half)), power(other));
    // Clamping may have dropped a NaN.
    simd.select_f32s(simd.equal_f32s(x, x), y, x)
}

/// `e^x` for `x <= 0`, in fewer steps than [`exp`]: results below the normal numbers, at -87.7, become 0.
#[inline(always)]
pub fn exp_falling<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    const SHIFT: f32 = 12_582_912.0 + 127.0; // as in `exp`, and an exponent's bias
    let shifted = simd.mul_add_f32s(x, simd.splat_f32s(std::f32::consts::LOG2_E), simd.splat_f32s(SHIFT));
    let n = simd.sub_f32s(shifted, simd.splat_f32s(SHIFT));
    let r = simd.mul_add_f32s(n, simd.splat_f32s(-355.0 / 512.0), x);
    let r = simd.mul_add_f32s(n, simd.splat_f32s(2.121_944_4e-4), r);
    let p =
        polynomial(simd, r, [1.378_059_4e-3, 8.373_124_5e-3, 4.166_953_6e-2, 1.666_647_2e-1, 4.999_998_5e-1, 1.0, 1.0]);
    let power = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    let y = simd.mul_f32s(p, simd.transmute_f32s_u32s(power));
    // Below -88 the exponent bits are not valid; NaN does not compare as less.
    simd.select_f32s(simd.less_than_f32s(x, simd.splat_f32s(-88.0)), simd.splat_f32s(0.0), y)
}

/// `1 / (1 + e^-x)`, and `e^x / (1 + e^x)` below zero, where `e^-x` would overflow before the result is zero.
#[inline(always)]
fn sigmoid<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    let e = exp(simd, simd.neg_f32s(simd.abs_f32s(x)));
    let numerator = simd.select_f32s(simd.less_than_f32s(x, simd.splat_f32s(0.0)), e, one);
    simd.div_f32s(numerator, simd.add_f32s(one, e))
}

/// `x (1 + erf(x / sqrt 2)) / 2`, within 0.9 units in the last place of `x`; from -1 on within 2.5 of the result.
///
/// The upper tail of the normal distribution beyond `|x|` is `2^p(|x|)` for `|x| >= 0`, and is used directly for
/// negative `x`, where `1 + erf` would cancel. The polynomial's leading coefficient is negative, so it keeps
/// decreasing; results below the normal numbers, at -13, become 0.
#[inline(always)]
fn gelu_erf<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    const SHIFT: f32 = 12_582_912.0 + 127.0; // as in `exp`, and an exponent's bias
    let p = polynomial(
        simd,
        simd.abs_f32s(x),
        [
            -3.092_422e-8,
            9.000_113e-7,
            -1.126_128_5e-5,
            7.726_784e-5,
            -2.793_711_6e-4,
            -6.568_109_3e-6,
            6.961_188_3e-3,
            -5.245_42e-2,
            -4.592_159_4e-1,
            -1.151_104_8,
            -1.0,
        ],
    );
    let p = simd.max_f32s(p, simd.splat_f32s(-127.0));
    let shifted = simd.add_f32s(p, simd.splat_f32s(SHIFT));
    let r = simd.sub_f32s(p, simd.sub_f32s(shifted, simd.splat_f32s(SHIFT)));
    let root = polynomial(
        simd,
        r,
        [1.535_336_2e-4, 1.339_887_5e-3, 9.618_437e-3, 5.550_332_4e-2, 2.402_264_8e-1, 6.931_472e-1, 1.0],
    );
    // The exponent bits are the lowest of `shifted`: 0, which makes the number 0, up to 126.
    let power = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    let tail = simd.mul_f32s(root, simd.transmute_f32s_u32s(power));
    let negative = simd.less_than_f32s(x, simd.splat_f32s(0.0));
    simd.mul_f32s(x, simd.select_f32s(negative, tail, simd.sub_f32s(simd.splat_f32s(1.0), tail)))
}

/// Odd polynomial below 0.625, `1 - 2 / (e^(2|x|) + 1)` beyond.
#[inline(always)]
pub fn tanh<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let t = simd.abs_f32s(x);
    let square = simd.mul_f32s(x, x);
    let q = polynomial(simd, square, [-5.704_988_7e-3, 2.063_908_8e-2, -5.373_971_6e-2, 1.333_144_2e-1, -3.333_328e-1]);
    let near = simd.mul_add_f32s(simd.mul_f32s(q, square), x, x);
    let one = simd.splat_f32s(1.0);
    let e = exp(simd, simd.add_f32s(t, t));
    let far = simd.sub_f32s(one, simd.div_f32s(simd.splat_f32s(2.0), simd.add_f32s(e, one)));
    let far = simd.select_f32s(simd.less_than_f32s(x, simd.splat_f32s(0.0)), simd.neg_f32s(far), far);
    simd.select_f32s(simd.greater_than_f32s(t, simd.splat_f32s(0.625)), far, near)
}

/// `x (1 + tanh u) / 2` with `u = sqrt(2 / pi) (x + 0.044715 x^3)`, as `x sigmoid(2 u)`.
#[inline(always)]
fn gelu_tanh<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let square = simd.mul_f32s(x, x);
    let inner = simd.mul_add_f32s(simd.mul_f32s(square, x), simd.splat_f32s(0.044_715), x);
    let twice = simd.mul_f32s(inner, simd.splat_f32s(1.595_769));
    simd.mul_f32s(x, sigmoid(simd, twice))
}

/// Applies one function to every element; the remainder after whole vectors uses the same instructions. The function is
/// an always-inlined closure: a named function would be called, with the baseline's instructions.
#[inline(always)]
fn map<S: Simd>(simd: S, values: &mut [f32], f: impl Fn(S, S::f32s) -> S::f32s) {
    let (vectors, rest) = S::as_mut_simd_f32s(values);
    for x in vectors {
        *x = f(simd, *x);
    }
    if !rest.is_empty() {
        let x = simd.partial_load_f32s(rest);
        simd.partial_store_f32s(rest, f(simd, x));
    }
}

/// `x = act(x)`, for the activations where [`ActivationKind::ends_linear`] holds.
#[inline(always)]
pub fn activate<S: Simd>(simd: S, kind: ActivationKind, values: &mut [f32]) {
    match kind {
        ActivationKind::Identity => {}
        ActivationKind::GeluErf => map(simd, values, inlined!(|simd, x| gelu_erf(simd, x))),
        ActivationKind::GeluTanh => map(simd, values, inlined!(|simd, x| gelu_tanh(simd, x))),
        ActivationKind::Relu => map(
            simd,
            values,
            inlined!(|simd, x| {
                let zero = simd.splat_f32s(0.0);
                // False for NaN, which is preserved.
                simd.select_f32s(simd.less_than_f32s(x, zero), zero, x)
            }),
        ),
        ActivationKind::Silu => map(simd, values, inlined!(|simd, x| simd.mul_f32s(x, sigmoid(simd, x)))),
        ActivationKind::Tanh => map(simd, values, inlined!(|simd, x| tanh(simd, x))),
        ActivationKind::Sigmoid => map(simd, values, inlined!(|simd, x| sigmoid(simd, x))),
        ActivationKind::QuickGelu => map(
            simd,
            values,
            inlined!(|simd, x| simd.mul_f32s(x, sigmoid(simd, simd.mul_f32s(x, simd.splat_f32s(1.702))))),
        ),
        kind => unreachable!("{kind:?} ends no product"),
    }
}

/// `a += b`
#[inline(always)]
pub fn add<S: Simd>(simd: S, a: &mut [f32], b: &[f32]) {
    let (a, a_rest) = S::as_mut_simd_f32s(a);
    let (b, b_rest) = S::as_simd_f32s(b);
    for (a, b) in a.iter_mut().zip(b) {
        *a = simd.add_f32s(*a, *b);
    }
    for (a, b) in a_rest.iter_mut().zip(b_rest) {
        *a += *b;
    }
}

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::backend::cpu::testing::archs;

    struct Falling<'a>(&'a mut [f32]);

    impl WithSimd for Falling<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            map(simd, self.0, exp_falling);
        }
    }

    #[test]
    fn the_falling_exponential_is_within_two_units() {
        for arch in archs() {
            let x: Vec<f32> = (0..=876_000).map(|i| i as f32 * -1e-4).collect();
            let mut y = x.clone();
            arch.dispatch(Falling(&mut y));
            for (x, y) in x.iter().zip(y) {
                let expected = f64::from(*x).exp();
                let unit = f64::from((expected as f32).next_up() - expected as f32);
                assert!((f64::from(y) - expected).abs() <= 2.0 * unit, "{arch:?}: e^{x} = {y:e}");
            }
            let mut y = [f32::NEG_INFINITY, -88.5, f32::MIN, -1e4, f32::NAN];
            arch.dispatch(Falling(&mut y));
            assert_eq!(y[..4], [0.0; 4], "{arch:?}");
            assert!(y[4].is_nan());
        }
    }
}
