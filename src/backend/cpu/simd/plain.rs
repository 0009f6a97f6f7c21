//! Loops over rows in plain Rust, for LLVM to vectorize: everything here is inlined into a function that
//! [`Arch::vectorized`] compiles for the instruction set. Sums run in a number of chains that is the same on every
//! machine, so bits are the same everywhere.

use pulp::{Simd, WithSimd};

use super::Arch;

impl Arch {
    /// Runs loops compiled for the instruction set in use. `body` must be an `inlined!` closure, and everything
    /// it calls `#[inline(always)]`.
    ///
    /// `body` must not be an `FnOnce`: a closure called through that trait may become a separate function, compiled for the
    /// baseline.
    pub fn vectorized(self, body: impl FnMut()) {
        struct Body<F>(F);

        impl<F: FnMut()> WithSimd for Body<F> {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(mut self, _: S) {
                (self.0)();
            }
        }
        self.dispatch(Body(body));
    }
}

/// Number of sums that run side by side.
const CHAINS: usize = 32;

/// Folds `f` of the operands' elements, equally many in each, in chains and then as a tree.
#[inline(always)]
fn fold<const CHAINS: usize, const K: usize>(
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
    sum_in_chains::<CHAINS, K>(operands, f)
}

/// The same in so many chains: element `i` is in chain `i mod CHAINS`, from the first on; then the later half of the chains is
/// added to the earlier, until one is left.
#[inline(always)]
pub fn sum_in_chains<const CHAINS: usize, const K: usize>(operands: [&[f32]; K], f: impl Fn([f32; K]) -> f32) -> f32 {
    fold::<CHAINS, K>(operands, 0.0, f, inlined!(|a, b| a + b))
}

/// The larger of two, NaN if either is NaN.
#[inline(always)]
pub fn nan_max(a: f32, b: f32) -> f32 {
    // False for a NaN in `a`, which is preserved.
    if a < b || b.is_nan() { b } else { a }
}

/// The largest element, NaN if one is NaN, negative infinity if there is none.
#[inline(always)]
pub fn largest(values: &[f32]) -> f32 {
    fold::<CHAINS, 1>([values], f32::NEG_INFINITY, inlined!(|[x]| x), nan_max)
}

/// The least and the largest element, or 0 where that is less or more; no element is NaN.
#[inline(always)]
pub fn range(values: &[f32]) -> (f32, f32) {
    (-farthest(values, -1.0), farthest(values, 1.0))
}

/// The largest product with `sign`, at least 0.
#[inline(always)]
fn farthest(values: &[f32], sign: f32) -> f32 {
    fold::<CHAINS, 1>([values], 0.0, inlined!(|[x]| sign * x), inlined!(|a: f32, b| if a < b { b } else { a }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_take_every_element_once() {
        for n in [0usize, 1, 31, 32, 33, 100] {
            let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
            assert_eq!(sum_by([&x, &x], |[a, b]| a + b) as usize, n * n.saturating_sub(1));
            assert_eq!(largest(&x), x.last().copied().unwrap_or(f32::NEG_INFINITY));
        }
        assert_eq!((range(&[]), range(&[2.0, 1.0]), range(&[-3.0; 40])), ((0.0, 0.0), (0.0, 2.0), (-3.0, 0.0)));
        assert!(largest(&[1.0, f32::NAN, 2.0]).is_nan());
    }
}
