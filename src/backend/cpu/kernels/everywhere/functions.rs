//! Operations and functions of float32 numbers from sums, products, quotients and roots that are each rounded once: everything
//! here has the same bits on every processor, and in the shaders of the same numbers.
//!
//! Plain Rust, for LLVM to vectorize: nothing is contracted to a fused multiply-add. Polynomials are those of
//! `shaders/include/numbers.glsl`, each step a product and then a sum; decimals are as there, since shorter ones may be other numbers.
#![allow(clippy::excessive_precision)]

pub(super) use crate::numerics::settle;
use crate::ops::{Activation, ActivationKind};

/// 1.5 * 2^23: adding it rounds to an integer, held in the low bits, where `|x| <= 2^22`.
const MAGIC: f32 = 12_582_912.0;

/// The settled product.
#[inline(always)]
pub(super) fn mul(a: f32, b: f32) -> f32 {
    settle(a * b)
}

/// The settled quotient.
#[inline(always)]
pub(super) fn div(a: f32, b: f32) -> f32 {
    settle(a / b)
}

/// The number as it is stored: one NaN for all.
#[inline(always)]
pub(super) fn canonical(x: f32) -> f32 {
    if x.is_nan() { f32::from_bits(0x7fc0_0000) } else { x }
}

/// The larger of two, NaN if either is NaN.
#[inline(always)]
pub(super) fn nan_max(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// `x`, not below `least` and not above `most`; NaN stays.
#[inline(always)]
fn bounded(x: f32, least: f32, most: f32) -> f32 {
    let x = if x > most { most } else { x };
    if x < least { least } else { x }
}

/// The nearest integer, ties to even, `|x| <= 2^22`, and its bits above those of [`MAGIC`].
#[inline(always)]
fn nearest(x: f32) -> (f32, i32) {
    let shifted = x + MAGIC;
    (shifted - MAGIC, shifted.to_bits().wrapping_sub(MAGIC.to_bits()) as i32)
}

/// `2^n`: 0 at -127, infinite at 128.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `c[0] x^(n-1) + ... + c[n-1]`
#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    coefficients[1..].iter().fold(coefficients[0], |y, c| y * x + c)
}

/// `e^x = e 2^n`, `e` in 0.5 .. 2, for `|x| <= 2^21`.
#[inline(always)]
fn split_exponential(x: f32) -> (f32, i32) {
    let (n, whole) = nearest(x * std::f32::consts::LOG2_E);
    // ln 2 in two parts.
    let r = (x - n * 0.693_359_4) + n * 2.121_944_4e-4;
    let q = polynomial(r, [1.381_446_7e-3, 8.368_780_4e-3, 4.166_839_4e-2, 1.666_652e-1, 4.999_999_3e-1]);
    (1.0 + ((r * r) * q + r), whole)
}

/// `e^x` as `(e, n)`, `e^x = e 2^n`, beyond 2^20 as there: for sums that are scaled themselves.
#[inline(always)]
pub(super) fn parts(x: f32) -> (f32, i32) {
    split_exponential(bounded(x, -1_048_576.0, 1_048_576.0))
}

/// `e^x`
#[inline(always)]
pub(super) fn exponential(x: f32) -> f32 {
    let (e, n) = split_exponential(bounded(x, -104.0, 89.0));
    // In two factors, neither of which leaves the range of normal numbers.
    let part = n >> 1;
    let y = settle(e * power_of_two(part) * power_of_two(n.wrapping_sub(part)));
    if x.is_nan() { x } else { y }
}

/// `tanh x`
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let t = bounded(x.abs(), 0.0, 10.0);
    let s = t * t;
    let p = polynomial(s, [-5.704_987e-3, 2.063_908_739e-2, -5.373_971_5e-2, 1.333_144_2e-1, -3.333_328_2e-1]);
    let far = 1.0 - div(2.0, exponential(2.0 * t) + 1.0);
    let y = if t <= 0.625 { t * (s * p) + t } else { far };
    if x.is_nan() { x } else { y.copysign(x) }
}

/// `1 / (1 + e^-x)`
#[inline(always)]
fn logistic(x: f32) -> f32 {
    let e = exponential(-x.abs());
    div(if x < 0.0 { e } else { 1.0 }, 1.0 + e)
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
            1.167_699_874e-1,
            -1.242_014_1e-1,
            1.424_932_3e-1,
            -1.666_805_8e-1,
            2.000_071_476_5e-1,
            -2.499_999_4e-1,
            3.333_333e-1,
        ],
    );
    let low = (f * s) * p + n * -2.121_944_4e-4;
    (f + (low - 0.5 * s)) + n * 0.693_359_4
}

/// `ln x` of a settled number: negative infinity at 0, NaN below.
#[inline(always)]
fn logarithm(x: f32) -> f32 {
    let bits = x.to_bits();
    // The exponent of the power of two that leaves a quotient in sqrt(1/2) .. sqrt(2).
    let n = (bits.wrapping_sub(0x3f35_04f3) as i32) >> 23;
    let f = f32::from_bits(bits.wrapping_sub((n as u32) << 23)) - 1.0;
    let y = logarithm_near(f, n as f32);
    let y = if bits >= 0x7f80_0000 { x } else { y };
    let y = if x < 0.0 { f32::NAN } else { y };
    if x == 0.0 { f32::NEG_INFINITY } else { y }
}

/// `ln(1 + e^x)`
#[inline(always)]
fn softplus(x: f32) -> f32 {
    let e = exponential(-x.abs());
    let half_way = e > 0.414_213_57;
    nan_max(x, 0.0) + logarithm_near(if half_way { 0.5 * e - 0.5 } else { e }, if half_way { 1.0 } else { 0.0 })
}

/// `x (1 + erf(x / sqrt 2)) / 2`: the upper tail of the normal distribution beyond `|x|` is `2^p(|x|)`.
#[inline(always)]
fn gelu_erf(x: f32) -> f32 {
    let t = bounded(x.abs(), 0.0, 16.0);
    let p = polynomial(
        t,
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
    let p = if p < -127.0 { -127.0 } else { p };
    let (n, whole) = nearest(p);
    let root = polynomial(
        p - n,
        [1.535_336_2e-4, 1.339_887_5e-3, 9.618_437e-3, 5.550_332_4e-2, 2.402_264_8e-1, 6.931_472e-1, 1.0],
    );
    let tail = mul(root, power_of_two(whole));
    mul(x, if x < 0.0 { tail } else { 1.0 - tail })
}

/// `x (1 + tanh u) / 2 = x / (1 + e^-2u)`, `u = sqrt(2 / pi) (x + 0.044715 x^3)`
#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    let t = bounded(x * (x * x * -7.135_481_6e-2 + -1.595_769_12), -88.0, 89.0);
    let (e, n) = split_exponential(t);
    div(x, e * power_of_two(n) + 1.0)
}

/// Bits of `2 / pi`: two zeros, then the fraction.
const TWO_OVER_PI: [u32; 7] =
    [0x28be_60db, 0x9391_054a, 0x7f09_d5f4, 0x7d4d_3770, 0x36d8_a566, 0x4f10_e410, 0x7f94_58ea];

/// An angle from 800 on as quarter turns and a remainder, up to an eighth of a turn: `|x| 2 / pi` in fixed point with 62 binary
/// places, of 96 bits of `2 / pi`, those before which count whole turns alone left out.
fn turned_far(x: f32) -> (u32, f32) {
    let bits = x.to_bits();
    let mantissa = u128::from((bits << 8) | 0x8000_0000);
    let exponent = ((bits >> 23) & 0xff) - 126;
    let word = (exponent >> 5) as usize;
    let words = (word..word + 4).map(|place| place.checked_sub(1).map_or(0, |place| TWO_OVER_PI[place]));
    let four = words.fold(0u128, |all, word| (all << 32) | u128::from(word));
    let turns = ((mantissa * ((four << (exponent & 31)) >> 32)) >> 32) as u64;
    let (quarters, part) = ((turns >> 62) as u32, turns & (u64::MAX >> 2));
    // To the nearest quarter turn.
    let above = part >> 61 != 0;
    let part = if above { (1 << 62) - part } else { part };
    let rest = ((part >> 32) as f32 * 9.313_225_75e-10 + (part as u32) as f32 * 2.168_404_34e-19)
        * std::f32::consts::FRAC_PI_2;
    let quarters = quarters + u32::from(above);
    let negative = x < 0.0;
    (if negative { quarters.wrapping_neg() } else { quarters }, if negative != above { -rest } else { rest })
}

/// The same of any number; NaN of what is not finite.
#[inline(always)]
fn turned(x: f32) -> (u32, f32) {
    if x.abs() >= 800.0 {
        return if x.is_finite() { turned_far(x) } else { (0, f32::NAN) };
    }
    let (n, whole) = nearest(x * std::f32::consts::FRAC_2_PI);
    // pi / 2 in three parts; the first two have so few bits that their products with n are exact.
    let rest = ((x - n * 1.570_312_5) - n * 4.837_512_969_970_703e-4) - n * 7.549_789_954_891e-8;
    (whole as u32, rest)
}

/// `cos x`, by the polynomials of `shaders/include/numbers/angles.glsl`.
#[inline(always)]
fn cosine(x: f32) -> f32 {
    let (quarters, r) = turned(x);
    let quarters = quarters.wrapping_add(1);
    let s = r * r;
    let odd = (r * s) * polynomial(s, [-1.951_529_589_1e-4, 8.332_160_873_6e-3, -1.666_665_461_1e-1]) + r;
    let q = polynomial(s, [2.443_315_711_809_948e-5, -1.388_731_625_493_765e-3, 4.166_664_568_298_827e-2]);
    let even = (s * s) * q + (s * -0.5 + 1.0);
    let y = if quarters & 1 == 0 { odd } else { even };
    if quarters & 2 == 0 { y } else { -y }
}

/// `values = act(values)`, canonical; part of a function that is compiled for the instruction set.
#[inline(always)]
pub(super) fn activate(function: &Activation, values: &mut [f32]) {
    use ActivationKind::*;
    /// One loop per function, each without a branch on the kind.
    macro_rules! map {
        ($x:ident => $y:expr) => {
            for value in values.iter_mut() {
                let $x = settle(*value);
                *value = canonical($y);
            }
        };
    }
    let (a, b) = (settle(function.a), settle(function.b));
    match function.kind {
        Identity => map!(x => x),
        GeluErf => map!(x => gelu_erf(x)),
        GeluTanh => map!(x => gelu_tanh(x)),
        Relu => map!(x => nan_max(x, 0.0)),
        Silu => map!(x => mul(x, logistic(x))),
        Tanh => map!(x => tanh(x)),
        Sigmoid => map!(x => logistic(x)),
        QuickGelu => map!(x => mul(x, logistic(mul(x, 1.702)))),
        Softplus => map!(x => softplus(x)),
        LeakyRelu => map!(x => if x < 0.0 { mul(a, x) } else { x }),
        Roswish => map!(x => mul(x + a, logistic(mul(b, x))) - mul(0.5, a)),
        Sqrt => map!(x => x.sqrt()),
        Exp => map!(x => exponential(x)),
        Log => map!(x => logarithm(x)),
        Gcu => map!(x => mul(x, cosine(x))),
    }
}
