//! Vector arithmetic, written once over [`pulp::Simd`] and compiled for AVX-512, AVX2, NEON and plain scalars; products
//! on tile registers (`tiles/`) and of bytes (`integers/`) where the processor has them.
//!
//! pulp detects the processor's features at run time and returns the token (`simd: S`) that proves them, so nothing
//! here but the tile instructions and the byte products is `unsafe`. Every function with such a token is
//! `#[inline(always)]`: code that is not inlined into the function pulp compiled for the instruction set would use the
//! baseline's instructions.
//!
//! Lanes per vector differ between machines, and with them sums over lanes: results are reproducible bit for bit on one
//! machine, not across machines.

mod elementary;
mod exact;
mod integers;
mod math;
mod plain;
mod product;
mod tile;
mod tiles;

pub use elementary::{
    MOST_ANGLE, error_function, exponential, logarithm, logarithm_of_rest, logistic, softplus, turned,
};
pub use exact::{ExactProduct, scaled};
pub use integers::{
    ByteUnit, DigitRows, INTEGER_PANEL, INTEGER_ROWS, LARGEST, Line, Pair, TILED, WORD_PANEL, WordLine, WordRows,
    WordUnit, digit_panel, digits_of, integer_panel, multiply_digits, multiply_integers, multiply_words, word_pairs,
    word_panel, words_of,
};
pub use math::{activate, add, exp_falling, tanh};
pub use plain::{largest, nan_max, range, sum_by, sum_in_chains};
pub use product::{Finish, Product, Scale, Widest};
pub use tile::CHAIN;
#[cfg(test)]
pub use tiles::altered;
pub use tiles::{PANEL, PackPanel, Standard, TileProduct, TileUnit, panel_floats};

use pulp::{Simd, WithSimd};

/// The instruction sets in use.
#[derive(Debug, Clone, Copy)]
pub struct Arch {
    vectors: pulp::Arch,
    tiles: Option<TileUnit>,
    bytes: Option<ByteUnit>,
    words: Option<WordUnit>,
}

impl Arch {
    /// The best instruction sets of the processor.
    pub fn new() -> Self {
        let vectors = pulp::Arch::new();
        #[cfg(target_arch = "x86_64")]
        let long = matches!(vectors, pulp::Arch::V4(_));
        #[cfg(not(target_arch = "x86_64"))]
        let long = false;
        let tiles = if long { TileUnit::try_new() } else { None };
        let words = if long { WordUnit::try_new() } else { None };
        Arch { vectors, tiles, bytes: ByteUnit::all().first().copied(), words }
    }

    /// All that this machine supports, the best first.
    #[cfg(test)]
    pub fn all() -> Vec<Self> {
        let best = Arch::new();
        let mut all = vec![best];
        if best.tiles.is_some() {
            all.push(Arch { tiles: None, ..best });
        }
        #[cfg(target_arch = "x86_64")]
        if let (Some(simd), false) = (pulp::x86::V3::try_new(), matches!(best.vectors, pulp::Arch::V3(_))) {
            all.push(Arch { vectors: pulp::Arch::V3(simd), tiles: None, bytes: ByteUnit::all().pop(), words: None });
        }
        all.push(Arch { vectors: pulp::Arch::Scalar, tiles: None, bytes: None, words: None });
        all
    }

    /// Runs `op` compiled for the vectors.
    #[inline(always)]
    pub fn dispatch<Op: WithSimd>(self, op: Op) -> Op::Output {
        self.vectors.dispatch(op)
    }

    /// The vector instructions alone.
    pub fn without_tiles(self) -> Self {
        Arch { tiles: None, ..self }
    }

    /// The tile registers, if available.
    pub fn tiles(self) -> Option<TileUnit> {
        self.tiles
    }

    /// The byte products, if available.
    pub fn bytes(self) -> Option<ByteUnit> {
        self.bytes
    }

    /// The word products, if available.
    pub fn words(self) -> Option<WordUnit> {
        self.words
    }

    /// The name reported by `grilly.info()`.
    pub fn name(self) -> &'static str {
        match self.vectors {
            _ if self.tiles.is_some() => "amx",
            #[cfg(target_arch = "x86_64")]
            pulp::Arch::V4(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            pulp::Arch::V3(_) => "avx2",
            #[cfg(target_arch = "aarch64")]
            pulp::Arch::Neon(_) => "neon",
            _ => "scalar",
        }
    }
}

/// Sum of `values`, lane by lane in four chains, then over lanes, then the remainder: an order fixed by the length.
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
        inlined!(|simd, x| {
            let d = simd.sub_f32s(x, center);
            simd.mul_f32s(d, d)
        }),
        inlined!(|x| (x - mean) * (x - mean)),
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
