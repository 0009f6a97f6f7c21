//! Functions of float64 with the same bits on every platform, of which the numbers of
//! [`Numerics::Everywhere`](super::Numerics::Everywhere) that the host computes are made: tables of positions, slopes, buckets.
//! Those of the standard library call the platform's C library, whose last bits are its own (clippy.toml forbids them).
//!
//! They are musl's, in Rust (crate `libm`): sums, products, quotients and conversions, which IEEE 754 rounds in one way and
//! Rust does not contract, tables, and operations on bits. What libm has for single targets (its feature `arch`, and code for
//! x86 without SSE, for which grilly is not compiled) are roots, roundings to integers and fused products, each defined to the
//! last bit, too; these functions use of it the root alone, in `powf(x, 0.5)`.
//!
//! Errors are below one unit in the last place, and none of its results is certain to be the nearest: rounded to float32, they
//! are those of any other such library but for one argument in some 10^8.

/// `base^exponent`.
///
/// ```
/// use grilly::numerics::portable::powf;
/// assert_eq!([powf(10_000.0, 0.25), powf(4.0, -0.5)], [10.0, 0.5]);
/// ```
pub fn powf(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}

/// `2^x`.
///
/// ```
/// use grilly::numerics::portable::exp2;
/// assert_eq!([exp2(-8.0), exp2(0.5)], [1.0 / 256.0, std::f64::consts::SQRT_2]);
/// ```
pub fn exp2(x: f64) -> f64 {
    libm::exp2(x)
}

/// The natural logarithm; NaN below 0.
///
/// ```
/// use grilly::numerics::portable::ln;
/// assert_eq!([ln(1.0), ln(2.0), ln(0.0)], [0.0, std::f64::consts::LN_2, f64::NEG_INFINITY]);
/// ```
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// The sine of an angle in radians.
///
/// ```
/// use grilly::numerics::portable::sin;
/// assert_eq!([sin(0.0), sin(std::f64::consts::FRAC_PI_2)], [0.0, 1.0]);
/// ```
pub fn sin(x: f64) -> f64 {
    libm::sin(x)
}

/// The cosine of an angle in radians.
///
/// ```
/// use grilly::numerics::portable::cos;
/// assert_eq!([cos(0.0), cos(std::f64::consts::PI)], [1.0, -1.0]);
/// ```
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

/// `2^exponent`, exactly, for exponents from -1022 to 1023.
///
/// ```
/// use grilly::numerics::portable::power_of_two;
/// assert_eq!([3, -1022].map(power_of_two), [8.0, f64::MIN_POSITIVE]);
/// ```
pub fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bases of rotary positions of published models, and those of the tests.
    const BASES: [f64; 15] =
        [100.0, 500.0, 1000.0, 5000.0, 1e4, 2e4, 1e5, 1.5e5, 1.6e5, 2.5e5, 5e5, 1e6, 5e6, 8e6, 1e7];

    /// Their frequencies for heads of which so many columns turn.
    fn frequencies(base: f64, columns: usize, power: fn(f64, f64) -> f64) -> Vec<f32> {
        let share = |pair: usize| f64::from((2 * pair) as f32 / columns as f32);
        (0..columns / 2).map(|pair| 1.0 / power(base, share(pair)) as f32).collect()
    }

    #[test]
    fn frequencies_are_those_of_the_platform() {
        for columns in (2..=512).step_by(2) {
            for base in BASES.into_iter().chain(BASES.map(|base| 8.0 * base)) {
                assert_eq!(frequencies(base, columns, powf), frequencies(base, columns, f64::powf), "{base} {columns}");
            }
            // Of GTE's ntk.
            for factor in 1..=64 {
                let factor = f64::from(factor) / 2.0;
                let [own, other] = [powf, f64::powf].map(|power| power(factor, 2.0 / columns as f64) as f32);
                assert_eq!(own, other, "{factor} {columns}");
            }
        }
    }

    /// All pairs of heads of 64 columns, whose angles are among those of wider ones; positions one by one, then further apart.
    #[test]
    fn cosines_and_sines_are_those_of_the_platform() {
        let positions = || (0..1024).chain((1024..131_072).step_by(509)).map(|position| position as f32);
        for frequency in BASES.into_iter().flat_map(|base| frequencies(base, 64, powf)) {
            for angle in positions().map(|position| f64::from(position * frequency)) {
                let [own, other] =
                    [[cos(angle), sin(angle)], [angle.cos(), angle.sin()]].map(|xy| xy.map(|x| x as f32));
                assert_eq!(own, other, "{angle}");
            }
        }
    }

    #[test]
    fn logarithms_slopes_and_roots_are_those_of_the_platform() {
        for i in 1..=1 << 18 {
            for x in [f64::from(i), f64::from(i) / 128.0, 1.0 + f64::from(i) / 8192.0] {
                assert_eq!(ln(x) as f32, x.ln() as f32, "{x}");
            }
            // A root in place of a power, of Gemma's scores.
            assert_eq!(f64::from(i).sqrt().recip() as f32, f64::from(i).powf(-0.5) as f32, "{i}");
        }
        for heads in 1..=256 {
            for k in 1..=heads {
                let x = -8.0 * f64::from(k) / f64::from(heads);
                assert_eq!(exp2(x) as f32, x.exp2() as f32, "{x}");
            }
        }
    }

    #[test]
    fn powers_of_two_are_exact() {
        for exponent in -1022..=1023 {
            assert_eq!(power_of_two(exponent), 2f64.powi(exponent), "{exponent}");
        }
    }
}
