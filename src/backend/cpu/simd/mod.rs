//! Vector arithmetic, written once over [`pulp::Simd`] and compiled for AVX-512, AVX2, NEON and plain scalars.
//!
//! pulp checks at run time what the processor has and hands out the token (`simd: S`) that proves it, so nothing here
//! is `unsafe`. Everything that takes such a token is `#[inline(always)]`: code that is not inlined into the function
//! pulp compiled for the instruction set would fall back to the baseline's instructions.
//!
//! Lanes per vector differ between machines, and sums over lanes with them: bits are those of a machine, not of all.

mod elementary;
mod math;
mod plain;
mod tile;

pub use elementary::{
    MOST_ANGLE, error_function, exponential, logarithm, logarithm_of_rest, logistic, softplus, turned,
};
pub use math::{activate, add, exp};
pub use plain::{largest, nan_max, sum_by, vectorized};
pub use tile::{Finish, PANEL_VECTORS, Product, Scale, lanes};

use pulp::Simd;

/// The instruction set in use.
pub use pulp::Arch;

/// Sum of `values`, lane by lane in four chains, then lanes, then what is left over: an order fixed by the length.
#[inline(always)]
pub fn sum<S: Simd>(simd: S, values: &[f32]) -> f32 {
    sum_of(simd, values, |_, x| x, |x| x)
}

/// Sum of `(x - mean)^2` in the order of [`sum`].
#[inline(always)]
pub fn sum_of_squares<S: Simd>(simd: S, values: &[f32], mean: f32) -> f32 {
    let center = simd.splat_f32s(mean);
    sum_of(
        simd,
        values,
        #[inline(always)]
        |simd, x| {
            let d = simd.sub_f32s(x, center);
            simd.mul_f32s(d, d)
        },
        #[inline(always)]
        |x| (x - mean) * (x - mean),
    )
}

#[inline(always)]
fn sum_of<S: Simd>(
    simd: S,
    values: &[f32],
    vector: impl Fn(S, S::f32s) -> S::f32s,
    scalar: impl Fn(f32) -> f32,
) -> f32 {
    let (vectors, rest) = S::as_simd_f32s(values);
    let (fours, ones) = vectors.as_chunks::<4>();
    let mut chains = [simd.splat_f32s(0.0); 4];
    for four in fours {
        for (chain, x) in chains.iter_mut().zip(four) {
            *chain = simd.add_f32s(*chain, vector(simd, *x));
        }
    }
    for (chain, x) in chains.iter_mut().zip(ones) {
        *chain = simd.add_f32s(*chain, vector(simd, *x));
    }
    let pairs = [simd.add_f32s(chains[0], chains[1]), simd.add_f32s(chains[2], chains[3])];
    let mut total = simd.reduce_sum_f32s(simd.add_f32s(pairs[0], pairs[1]));
    for x in rest {
        total += scalar(*x);
    }
    total
}
