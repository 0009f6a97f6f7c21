//! Loops over rows in plain Rust, for LLVM to vectorise: everything here is inlined into a function that
//! [`pulp::Arch::dispatch`] compiles for the instruction set. Sums run in chains whose number no machine changes, so
//! bits are the same everywhere.

/// Sums that run side by side.
const CHAINS: usize = 32;

/// Folds `f` of the operands' elements, which are as many in each, in chains and then as a tree.
#[inline(always)]
fn fold<const K: usize>(
    operands: [&[f32]; K],
    none: f32,
    f: impl Fn([f32; K]) -> f32,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    let blocks = operands.map(|o| o.as_chunks::<CHAINS>());
    let mut chains = [none; CHAINS];
    for block in 0..blocks[0].0.len() {
        let values = blocks.map(|(whole, _)| &whole[block]);
        for (lane, chain) in chains.iter_mut().enumerate() {
            *chain = join(*chain, f(values.map(|v| v[lane])));
        }
    }
    for lane in 0..blocks[0].1.len() {
        chains[lane] = join(chains[lane], f(blocks.map(|(_, rest)| rest[lane])));
    }
    let mut reach = CHAINS / 2;
    while reach > 0 {
        for lane in 0..reach {
            chains[lane] = join(chains[lane], chains[lane + reach]);
        }
        reach /= 2;
    }
    chains[0]
}

/// Sum of `f` of the operands' elements.
#[inline(always)]
pub fn sum_by<const K: usize>(operands: [&[f32]; K], f: impl Fn([f32; K]) -> f32) -> f32 {
    fold(
        operands,
        0.0,
        f,
        #[inline(always)]
        |a, b| a + b,
    )
}

/// The larger of two, NaN if either is NaN.
#[inline(always)]
pub fn nan_max(a: f32, b: f32) -> f32 {
    // False for a NaN in `a`, which stays.
    if a < b || b.is_nan() { b } else { a }
}

/// The largest element, NaN if one is NaN, negative infinity if there is none.
#[inline(always)]
pub fn largest(values: &[f32]) -> f32 {
    fold(
        [values],
        f32::NEG_INFINITY,
        #[inline(always)]
        |[x]| x,
        nan_max,
    )
}

/// `e^x` within 2 units in the last place, as [`super::exp`] but without fused multiply-add.
#[inline(always)]
pub fn exponential(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer, held in the low bits
    let bounded = x.clamp(-104.0, 89.0);
    let shifted = bounded * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    // ln 2 in two parts; n times the first is exact.
    let r = bounded + n * (-355.0 / 512.0);
    let r = r + n * 2.121_944_4e-4;
    let q = r * 1.381_446_7e-3 + 8.368_78e-3;
    let q = r * q + 4.166_839_4e-2;
    let q = r * q + 1.666_652e-1;
    let q = r * q + 4.999_999_3e-1;
    let y = 1.0 + (r * r * q + r);
    // 2^n in two factors, neither of which leaves the range of normal numbers; n + 300 is positive.
    let raised = shifted.to_bits().wrapping_sub(MAGIC.to_bits() - 300);
    let half = raised >> 1;
    let power = |e: u32| f32::from_bits(e.wrapping_sub(150 - 127) << 23);
    let y = y * power(half) * power(raised.wrapping_sub(half));
    if x.is_nan() { x } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_within_two_units() {
        for i in -1_100_000..=890_000i32 {
            let x = i as f32 * 1e-4;
            let (y, expected) = (f64::from(exponential(x)), f64::from(x).exp());
            let unit = (expected * f64::from(f32::EPSILON)).max(1.5e-45);
            assert!((y - expected).abs() <= 2.0 * unit || expected > f64::from(f32::MAX), "{x}: {y} for {expected}");
        }
        assert!(exponential(f32::NAN).is_nan());
        assert_eq!([f32::NEG_INFINITY, f32::INFINITY].map(exponential), [0.0, f32::INFINITY]);
    }

    #[test]
    fn folds_take_every_element_once() {
        for n in [0usize, 1, 31, 32, 33, 100] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            assert_eq!(sum_by([&x, &x], |[a, b]| a + b) as usize, n * n.saturating_sub(1));
            assert_eq!(largest(&x), x.last().copied().unwrap_or(f32::NEG_INFINITY));
        }
        assert!(largest(&[1.0, f32::NAN, 2.0]).is_nan());
    }
}
