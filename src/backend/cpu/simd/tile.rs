//! The inner loop of products on vectors: a few rows of A times one panel of B, with sums kept in registers.
//!
//! ```text
//!            panel: [depth, V vectors]
//!            b00 b01 b02      each element of the result is its own chain of multiply-adds over k = 0, 1, 2 ...,
//! a0 a1 ...  ─▶ + + +         cut into chains of CHAIN whose sums are added in order.
//! ```
//! The chain is the same for every tile height and width, for all neighbouring rows and for every division of the work,
//! so the order of summation depends on the depth alone.

use pulp::Simd;

use super::product::{Product, Scale, largest_tile};

/// Terms per chain: shorter chains round less, and a panel's block stays in the first-level cache. A multiple of every
/// panel width.
pub const CHAIN: usize = 384;

/// One chain of every sum.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    from: usize,
    pub terms: usize,
    first: bool,
    pub last: bool,
}

impl Chain {
    /// The value stored for a sum: after the last chain it is scaled, with the bias added.
    #[inline(always)]
    fn end<S: Simd>(self, simd: S, before: S::f32s, sum: S::f32s, scale: S::f32s, bias: S::f32s) -> S::f32s {
        let sum = simd.add_f32s(before, sum);
        if self.last { simd.mul_add_f32s(sum, scale, bias) } else { sum }
    }
}

/// Some rows of one panel's columns.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    /// The first row.
    pub row: usize,
    /// Rows that the previous tile has stored.
    pub done: usize,
    pub column: usize,
    pub chain: Chain,
}

impl Product<'_> {
    pub(super) fn first_chain(&self) -> Chain {
        self.chain(if self.skip.start == 0 { self.skip.end } else { 0 }, true)
    }

    pub(super) fn chain_after(&self, chain: Chain) -> Chain {
        self.chain(self.start_after(chain.from), false)
    }

    fn start_after(&self, from: usize) -> usize {
        if from + CHAIN == self.skip.start { self.skip.end } else { from + CHAIN }
    }

    /// The chain that begins at `from`; without terms if nothing is left.
    fn chain(&self, from: usize, first: bool) -> Chain {
        let from = from.min(self.depth);
        Chain { from, terms: CHAIN.min(self.depth - from), first, last: self.start_after(from) >= self.depth }
    }

    /// Transposes `R` rows of A from `row` on, `[R, terms]`, to `[terms, R]`: contiguous memory for a tile to read.
    #[inline(always)]
    pub(super) fn pack<const R: usize>(&self, chain: Chain, row: usize, out: &mut [f32]) {
        /// Columns transposed at once, in registers.
        const TURNED: usize = 16;
        let rows: [&[f32]; R] = self.rows_of(chain, row);
        let out = out.as_chunks_mut::<R>().0;
        let (blocks, rest) = out.as_chunks_mut::<TURNED>();
        for (number, out) in blocks.iter_mut().enumerate() {
            let block: [&[f32; TURNED]; R] = rows.map(|row| &row.as_chunks().0[number]);
            for (k, out) in out.iter_mut().enumerate() {
                for (out, row) in out.iter_mut().zip(block) {
                    *out = row[k];
                }
            }
        }
        let first = blocks.len() * TURNED;
        for (k, out) in rest.iter_mut().enumerate() {
            for (out, row) in out.iter_mut().zip(rows) {
                *out = row[first + k];
            }
        }
    }

    /// The terms of a chain in `R` rows: slices of one known length, so that loops over them have no bounds checks.
    #[inline(always)]
    fn rows_of<const R: usize>(&self, chain: Chain, row: usize) -> [&[f32]; R] {
        let mut rows: [&[f32]; R] = [&[]; R];
        for (i, a) in rows.iter_mut().enumerate() {
            *a = &self.a.0[(row + i) * self.a.1 + chain.from..][..chain.terms];
        }
        rows
    }

    /// Computes the tile of `tall` rows; `packed` begins with them, if A is packed.
    #[inline(always)]
    pub(super) fn tiles<S: Simd, const V: usize>(&mut self, simd: S, tall: usize, tile: Tile, packed: Option<&[f32]>) {
        let [most, widest] = largest_tile::<S>();
        match (tall, packed) {
            (1, _) => self.tile::<S, 1, V>(simd, tile, None),
            (2, _) => self.tile::<S, 2, V>(simd, tile, None),
            (4, _) => self.tile::<S, 4, V>(simd, tile, None),
            (6, None) if most == 6 => self.tile::<S, 6, V>(simd, tile, None),
            (6, Some(_)) if most == 6 && V == widest => self.tile::<S, 6, V>(simd, tile, packed),
            (8, None) if most == 8 => self.tile::<S, 8, V>(simd, tile, None),
            (8, Some(_)) if most == 8 && V == widest => self.tile::<S, 8, V>(simd, tile, packed),
            _ => unreachable!("no taller tile on this instruction set, no rows packed for narrow panels"),
        }
    }

    /// Computes one chain of the tile's sums.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(&mut self, simd: S, tile: Tile, packed: Option<&[f32]>) {
        let Tile { row, done, column, chain } = tile;
        let width = V * S::F32_LANES;
        let panel = &self.panels[column * self.panel_depth..][..width * self.depth];
        let b = &S::as_simd_f32s(panel).0.as_chunks::<V>().0[chain.from..][..chain.terms];
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        match packed {
            Some(packed) => {
                let a = &packed.as_chunks::<R>().0[..chain.terms];
                for k in 0..chain.terms {
                    add_products(simd, inlined!(|i| a[k][i]), &b[k], &mut sums);
                }
            }
            None => {
                let a: [&[f32]; R] = self.rows_of(chain, row);
                for k in 0..chain.terms {
                    add_products(simd, inlined!(|i| a[i][k]), &b[k], &mut sums);
                }
            }
        }
        // What a variable indexes lies in memory: a copy of the sums, or the compiler stores them at each term.
        let sums = std::hint::black_box(sums);
        let mut bias = [simd.splat_f32s(0.0); V];
        if !self.finish.bias.is_empty() {
            bias.copy_from_slice(S::as_simd_f32s(&self.finish.bias[column..][..width]).0);
        }
        let whole = column + width <= self.columns;
        // A loop rather than unrolled code: it runs once per chain.
        for (i, sums) in sums.iter().enumerate().skip(done) {
            let scale = simd.splat_f32s(match self.scale {
                Scale::All(scale) => scale,
                Scale::Rows(scales) => scales[row + i],
            });
            let out = &mut self.out.0[(row + i) * self.out.1 + column..];
            if whole {
                let out = S::as_mut_simd_f32s(&mut out[..width]).0;
                for j in 0..V {
                    let before = if chain.first { simd.splat_f32s(0.0) } else { out[j] };
                    out[j] = chain.end(simd, before, sums[j], scale, bias[j]);
                }
            } else {
                let out = &mut out[..self.columns - column];
                for (j, out) in out.chunks_mut(S::F32_LANES).enumerate() {
                    let before = if chain.first { simd.splat_f32s(0.0) } else { simd.partial_load_f32s(out) };
                    simd.partial_store_f32s(out, chain.end(simd, before, sums[j], scale, bias[j]));
                }
            }
        }
    }
}

/// `sums[i, j] += a(i) b[j]`
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "over iterators the compiler keeps the sums in memory")]
fn add_products<S: Simd, const R: usize, const V: usize>(
    simd: S,
    a: impl Fn(usize) -> f32,
    b: &[S::f32s; V],
    sums: &mut [[S::f32s; V]; R],
) {
    for i in 0..R {
        let x = simd.splat_f32s(a(i));
        for j in 0..V {
            sums[i][j] = simd.mul_add_f32s(x, b[j], sums[i][j]);
        }
    }
}
