//! Elementary functions of one number in plain Rust, for loops that LLVM vectorises: within 1 to 2 units in the last
//! place, with the polynomials of `shaders/include/numbers.glsl`. NaN gives NaN.

use std::f64::consts::FRAC_2_PI;

/// `c[0] x^(n-1) + ... + c[n-1]`
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    coefficients[1..].iter().fold(coefficients[0], |y, c| y * x + c)
}

/// `e^x`, as [`super::exp`] but without fused multiply-add.
#[inline(always)]
pub fn exponential(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer, held in the low bits
    // NaN is preserved.
    let bounded = x.clamp(-104.0, 89.0);
    let shifted = bounded * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    // ln 2 in two parts; n times the first is exact.
    let r = bounded + n * (-355.0 / 512.0);
    let r = r + n * 2.121_944_4e-4;
    let q = polynomial(r, [1.381_446_7e-3, 8.368_78e-3, 4.166_839_4e-2, 1.666_652e-1, 4.999_999_3e-1]);
    let y = 1.0 + (r * r * q + r);
    // 2^n in two factors, neither of which leaves the range of normal numbers; n + 300 is positive.
    let raised = shifted.to_bits().wrapping_sub(MAGIC.to_bits() - 300);
    let half = raised >> 1;
    let power = |e: u32| f32::from_bits(e.wrapping_sub(150 - 127) << 23);
    y * power(half) * power(raised.wrapping_sub(half))
}

/// `1 / (1 + e^-x)`, with the exponential of the negative side, which cannot overflow.
#[inline(always)]
pub fn logistic(x: f32) -> f32 {
    let e = exponential(-x.abs());
    let numerator = if x < 0.0 { e } else { 1.0 };
    numerator / (1.0 + e)
}

/// `erf x`, within a unit of the last place of 1.
#[inline(always)]
pub fn error_function(x: f32) -> f32 {
    // Above 4 the result rounds to 1.
    let t = x.abs().clamp(0.0, 4.0);
    let near = [-5.955_112e-4, 4.986_21e-3, -2.676_190_4e-2, 1.128_168_8e-1, -3.761_248e-1, 1.283_791_5e-1];
    let far =
        [-1.123_129_7e-5, 3.228_037e-4, -3.642_458_4e-3, 2.376_206_2e-2, -1.062_368_8e-1, -6.351_513e-1, -1.128_648_5];
    let y = if t <= 0.92 { t + t * polynomial(t * t, near) } else { 1.0 - exponential(t * polynomial(t, far)) };
    y.copysign(x)
}

/// `ln(1 + f) + n ln 2`, `1 + f` in `sqrt(1/2) .. sqrt(2)`.
#[inline(always)]
fn logarithm_near(f: f32, n: f32) -> f32 {
    let s = f * f;
    let p = polynomial(
        f,
        [
            7.037_683_6e-2,
            -1.151_461e-1,
            1.167_699_9e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    );
    // ln 2 in two parts: the first has 9 bits, so its product with n is exact.
    let low = f * s * p + n * -2.121_944_4e-4;
    (f + (low - 0.5 * s)) + n * (355.0 / 512.0)
}

/// `ln x`, denormal `x` included; negative infinity at 0, NaN below.
#[inline(always)]
pub fn logarithm(x: f32) -> f32 {
    let bits = x.to_bits();
    // Denormal numbers are measured in units of 2^-149.
    let small = bits < 0x0080_0000;
    let scaled = if small { (bits as i32 as f32).to_bits() } else { bits };
    // The exponent of the power of two that leaves a quotient in sqrt(1/2) .. sqrt(2).
    let n = (scaled.wrapping_sub(0x3f35_04f3) as i32) >> 23;
    let f = f32::from_bits(scaled.wrapping_sub((n as u32) << 23)) - 1.0;
    let y = logarithm_near(f, (if small { n - 149 } else { n }) as f32);
    let y = if bits >= 0x7f80_0000 { x } else { y };
    let y = if x < 0.0 { f32::NAN } else { y };
    if x == 0.0 { f32::NEG_INFINITY } else { y }
}

/// `ln(1 - x)`
#[inline(always)]
pub fn logarithm_of_rest(x: f32) -> f32 {
    // Where x is small, 1 - x would lose its low bits.
    if x.abs() < 0.25 { logarithm_near(-x, 0.0) } else { logarithm(1.0 - x) }
}

/// `ln(1 + e^x)`
#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let e = exponential(-x.abs());
    let half_way = e > 0.414_213_57;
    let f = if half_way { 0.5 * e - 0.5 } else { e };
    let tail = logarithm_near(f, if half_way { 1.0 } else { 0.0 });
    if x > 0.0 { x + tail } else { tail }
}

/// Largest angle for which [`turned`] is used.
pub const MOST_ANGLE: f32 = 1e6;

/// `sin x` and `cos x` within 2^-33, `|x|` up to [`MOST_ANGLE`]; polynomials of least maximum error.
#[inline(always)]
pub fn turned(x: f64) -> (f64, f64) {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52, as above
    let shifted = x * FRAC_2_PI + MAGIC;
    let n = shifted - MAGIC;
    // pi / 2 in two parts; n times the first, of 33 bits, is exact.
    let r = x - n * 1.570_796_326_734_125_6 - n * 6.077_100_506_506_192e-11;
    let s = r * r;
    let odd = -1.983_933_408_175_910_8e-4 + s * 2.718_304_215_820_861_8e-6;
    let odd = -0.166_666_666_416_069_73 + s * (8.333_329_383_578_787e-3 + s * odd);
    let odd = r + r * s * odd;
    let even = -1.388_676_294_683_671_7e-3 + s * 2.439_036_892_973_147e-5;
    let even = -0.499_999_997_248_884_83 + s * (4.166_662_329_838_141e-2 + s * even);
    let even = 1.0 + s * even;
    let quarters = shifted.to_bits();
    let (sine, cosine) = if quarters & 1 == 0 { (odd, even) } else { (even, odd) };
    let signed = |y: f64, quarters: u64| f64::from_bits(y.to_bits() ^ ((quarters & 2) << 62));
    (signed(sine, quarters), signed(cosine, quarters.wrapping_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Largest error in units in the last place; for results below the normal numbers, in units of 2^-149, the least
    /// denormal number.
    fn farthest(f: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64, x: impl Iterator<Item = f32>) -> f64 {
        x.map(|x| {
            let (y, expected) = (f64::from(f(x)), exact(f64::from(x)));
            let unit = (expected.abs() * f64::from(f32::EPSILON)).max(1.5e-45);
            if expected.abs() > f64::from(f32::MAX) || y == expected { 0.0 } else { (y - expected).abs() / unit }
        })
        .fold(0.0, f64::max)
    }

    /// Numbers of every magnitude from 2^-149 to `most`.
    fn sizes(most: f32) -> impl Iterator<Item = f32> {
        (1u32..most.to_bits()).step_by(4099).map(f32::from_bits)
    }

    #[test]
    fn functions_are_within_two_units() {
        let line = |least: i32, most: i32| (least..=most).map(|i| i as f32 * 1e-4);
        assert!(farthest(exponential, f64::exp, line(-1_100_000, 890_000)) <= 2.0);
        assert!(farthest(logistic, |x| 1.0 / (1.0 + (-x).exp()), line(-870_000, 870_000)) <= 3.0);
        assert!(farthest(logarithm, f64::ln, sizes(f32::MAX)) <= 2.0);
        assert!(farthest(logarithm_of_rest, |x| (-x).ln_1p(), sizes(1.0).chain(sizes(0.25).map(|x| -x))) <= 2.0);
        assert!(farthest(softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p(), line(-870_000, 870_000)) <= 4.0);
    }

    #[test]
    fn angles_are_exact_enough_to_be_rounded_once() {
        for x in sizes(MOST_ANGLE).flat_map(|x| [x, -x]).map(f64::from) {
            let (sine, cosine) = turned(x);
            assert!((sine - x.sin()).abs() < 1.2e-10 && (cosine - x.cos()).abs() < 1.2e-10, "{x}: {sine}, {cosine}");
        }
    }

    #[test]
    fn special_numbers_have_their_values() {
        let nan = [exponential, logistic, error_function, logarithm, logarithm_of_rest, softplus];
        assert!(nan.iter().all(|f| f(f32::NAN).is_nan()));
        assert!(logarithm(-1.0).is_nan() && logarithm(f32::NEG_INFINITY).is_nan() && logarithm_of_rest(2.0).is_nan());
        assert_eq!([f32::NEG_INFINITY, f32::INFINITY].map(exponential), [0.0, f32::INFINITY]);
        assert_eq!([f32::NEG_INFINITY, f32::INFINITY].map(logistic), [0.0, 1.0]);
        assert_eq!([f32::NEG_INFINITY, f32::INFINITY].map(softplus), [0.0, f32::INFINITY]);
        assert_eq!([f32::NEG_INFINITY, f32::INFINITY].map(error_function), [-1.0, 1.0]);
        assert_eq!([0.0, -0.0, f32::INFINITY].map(logarithm), [f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY]);
        assert!(turned(f64::NAN).0.is_nan() && turned(f64::NAN).1.is_nan());
    }
}
