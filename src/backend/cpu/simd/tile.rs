//! The inner loop of products on vectors: a few rows of A times one panel of B, with sums kept in registers.
//!
//! ```text
//!            panel: [depth, V vectors]
//!            b00 b01 b02      each element of the result is its own chain of multiply-adds over k = 0, 1, 2 ...,
//! a0 a1 ...  ─▶ + + +         cut into chains of CHAIN whose sums are added in order.
//! ```
//! The chain is the same for every tile height and width, for all neighbouring rows and for every division of the work,
//! so the order of summation depends on the depth alone.

use std::cell::RefCell;
use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::{Arch, activate, add};
use crate::ops::ActivationKind;

/// Vectors side by side in a panel of weights: 8 rows x 3 vectors of sums leave registers for one row of B.
pub const PANEL_VECTORS: usize = 3;

/// Terms per chain: shorter chains round less, and a panel's block stays in the first-level cache. A multiple of every
/// panel width.
pub const CHAIN: usize = 384;

/// Floats per vector.
pub fn lanes(arch: Arch) -> usize {
    struct Lanes;
    impl WithSimd for Lanes {
        type Output = usize;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _simd: S) -> usize {
            S::F32_LANES
        }
    }
    arch.dispatch(Lanes)
}

/// The factor applied to the sums.
#[derive(Clone, Copy)]
pub enum Scale<'a> {
    /// One factor for all rows.
    All(f32),
    /// One factor per row.
    Rows(&'a [f32]),
}

/// The epilogue, applied to a finished sum while it is still in cache.
#[derive(Clone, Copy, Default)]
pub struct Finish<'a> {
    /// Applied first.
    pub activation: Option<ActivationKind>,
    /// Added last; same layout as the result.
    pub residual: Option<&'a [f32]>,
}

impl Finish<'_> {
    /// Finishes the piece of the result that begins at `start`.
    #[inline(always)]
    pub fn apply<S: Simd>(&self, simd: S, out: &mut [f32], start: usize) {
        if let Some(kind) = self.activation {
            activate(simd, kind, out);
        }
        if let Some(residual) = self.residual {
            add(simd, out, &residual[start..][..out.len()]);
        }
    }
}

/// `out[i, j] = act(scale[i] sum_k a[i, k] b[k, j] + bias[j]) + residual[i, j]`
pub struct Product<'a> {
    /// `[rows, depth]`, rows `a_stride` apart.
    pub a: &'a [f32],
    /// Stride between rows of A, in elements.
    pub a_stride: usize,
    /// Rows of A and of the result.
    pub rows: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
    /// Whole chains to skip, whose terms are known to be zeros; empty for none.
    pub skip: Range<usize>,
    /// B cut into panels of `vectors` vectors: `[panel][panel_depth][vectors * lanes]`, padded with zeros.
    pub panels: &'a [f32],
    /// Rows of a panel, of which the first `depth` are multiplied.
    pub panel_depth: usize,
    /// Vectors of a panel, 1 to 3.
    pub vectors: usize,
    /// Columns of the result.
    pub columns: usize,
    /// Applied to the sums.
    pub scale: Scale<'a>,
    /// Added to the scaled sums, padded like the panels; empty for none.
    pub bias: &'a [f32],
    /// Applied after the bias.
    pub finish: Finish<'a>,
    /// `[rows, columns]`, rows `out_stride` apart.
    pub out: &'a mut [f32],
    /// Stride between rows of the result, in elements.
    pub out_stride: usize,
}

/// Rows that are multiplied with one chain of a panel while it stays in the second-level cache.
const BLOCK_ROWS: usize = 512;

/// Number of panels from which on packing A costs less than it saves: each panel reads all rows again.
const PANELS_TO_PACK: usize = 16;

/// Fewer rows than this stay in the first-level cache unpacked.
const LEAST_PACKED: usize = 32;

thread_local! {
    /// Packed rows of A, per thread, reused between products.
    static PACKED_ROWS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl Product<'_> {
    /// Computes the product. One function per instruction set, shared by all callers, because the tiles are a lot of
    /// code.
    #[inline(never)]
    pub fn run(self, arch: Arch) {
        PACKED_ROWS.with_borrow_mut(|packed| {
            let pays = self.vectors == PANEL_VECTORS
                && self.rows >= LEAST_PACKED
                && self.columns >= PANELS_TO_PACK * PANEL_VECTORS * lanes(arch);
            // Whole tiles of up to 8 rows.
            let floats = if pays { self.rows.min(BLOCK_ROWS).next_multiple_of(8) * self.depth.min(CHAIN) } else { 0 };
            // Without memory A is read in place: the same bits.
            let room = packed.try_reserve_exact(floats.saturating_sub(packed.len())).is_ok();
            if room && floats > packed.len() {
                packed.resize(floats, 0.0);
            }
            arch.dispatch(Blocks { product: self, packed: if room { &mut packed[..floats] } else { &mut [] } });
        });
    }
}

/// A product, computed by blocks of rows and by chains: while the rows of a block are multiplied with a panel, its
/// chain stays in cache. Between chains the partial sums are stored in the result.
struct Blocks<'a, 'p> {
    product: Product<'p>,
    /// Memory for a chain of a block's rows; empty to read A in place.
    packed: &'a mut [f32],
}

/// One chain of every sum.
#[derive(Clone, Copy)]
struct Chain {
    from: usize,
    terms: usize,
    first: bool,
    last: bool,
}

impl Chain {
    /// The value stored for a sum: after the last chain it is scaled, with the bias added.
    #[inline(always)]
    fn end<S: Simd>(self, simd: S, before: S::f32s, sum: S::f32s, scale: S::f32s, bias: S::f32s) -> S::f32s {
        let sum = simd.add_f32s(before, sum);
        if self.last { simd.mul_add_f32s(sum, scale, bias) } else { sum }
    }
}

impl WithSimd for Blocks<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Blocks { mut product, packed } = self;
        let width = product.vectors * S::F32_LANES;
        for first in (0..product.rows).step_by(BLOCK_ROWS) {
            let count = BLOCK_ROWS.min(product.rows - first);
            // The tallest tile whose sums fit in registers. The last tile of a block is moved up to end with it, and
            // stores only the rows that are not `done`.
            let most = if S::REGISTER_COUNT >= 32 { 8 } else { 4 };
            let tall = if count >= most { most } else { 1 << count.ilog2() };
            let tiles =
                (0..count).step_by(tall).map(|row| (first + row.min(count - tall), row.saturating_sub(count - tall)));
            let room = if tall == most { packed.len() } else { 0 };
            let packed = &mut packed[..room];
            let mut chain = product.first_chain();
            loop {
                let floats = tall * chain.terms.max(1);
                for ((row, _), tile) in tiles.clone().zip(packed.chunks_exact_mut(floats)) {
                    if tall == 8 { product.pack::<8>(chain, row, tile) } else { product.pack::<4>(chain, row, tile) }
                }
                for column in (0..product.columns).step_by(width) {
                    for (number, (row, done)) in tiles.clone().enumerate() {
                        let a = packed.chunks_exact(floats).nth(number);
                        let tile = Tile { row, done, column, chain };
                        match product.vectors {
                            1 => product.tiles::<S, 1>(simd, tall, tile, a),
                            2 => product.tiles::<S, 2>(simd, tall, tile, a),
                            _ => product.tiles::<S, PANEL_VECTORS>(simd, tall, tile, a),
                        }
                        if chain.last {
                            let rows = row + done..row + tall;
                            product.finish(simd, rows, column, width.min(product.columns - column));
                        }
                    }
                }
                if chain.last {
                    break;
                }
                chain = product.chain_after(chain);
            }
        }
    }
}

/// Some rows of one panel's columns.
#[derive(Clone, Copy)]
struct Tile {
    /// The first row.
    row: usize,
    /// Rows that the previous tile has stored.
    done: usize,
    column: usize,
    chain: Chain,
}

impl Product<'_> {
    fn first_chain(&self) -> Chain {
        self.chain(if self.skip.start == 0 { self.skip.end } else { 0 }, true)
    }

    fn chain_after(&self, chain: Chain) -> Chain {
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
    fn pack<const R: usize>(&self, chain: Chain, row: usize, out: &mut [f32]) {
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
            *a = &self.a[(row + i) * self.a_stride + chain.from..][..chain.terms];
        }
        rows
    }

    /// Computes the tile of `tall` rows; `packed` begins with them, if A is packed.
    #[inline(always)]
    fn tiles<S: Simd, const V: usize>(&mut self, simd: S, tall: usize, tile: Tile, packed: Option<&[f32]>) {
        match (tall, packed) {
            (1, _) => self.tile::<S, 1, V>(simd, tile, None),
            (2, _) => self.tile::<S, 2, V>(simd, tile, None),
            (4, None) => self.tile::<S, 4, V>(simd, tile, None),
            (4, Some(_)) if V == PANEL_VECTORS => self.tile::<S, 4, V>(simd, tile, packed),
            (_, None) if S::REGISTER_COUNT >= 32 => self.tile::<S, 8, V>(simd, tile, None),
            (_, Some(_)) if S::REGISTER_COUNT >= 32 && V == PANEL_VECTORS => {
                self.tile::<S, 8, V>(simd, tile, packed);
            }
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
                    add_products(
                        simd,
                        #[inline(always)]
                        |i| a[k][i],
                        &b[k],
                        &mut sums,
                    );
                }
            }
            None => {
                let a: [&[f32]; R] = self.rows_of(chain, row);
                for k in 0..chain.terms {
                    add_products(
                        simd,
                        #[inline(always)]
                        |i| a[i][k],
                        &b[k],
                        &mut sums,
                    );
                }
            }
        }
        let mut bias = [simd.splat_f32s(0.0); V];
        if !self.bias.is_empty() {
            bias.copy_from_slice(S::as_simd_f32s(&self.bias[column..][..width]).0);
        }
        let whole = column + width <= self.columns;
        // A loop rather than unrolled code: it runs once per chain.
        for (i, sums) in sums.iter().enumerate().skip(done) {
            let scale = simd.splat_f32s(match self.scale {
                Scale::All(scale) => scale,
                Scale::Rows(scales) => scales[row + i],
            });
            let out = &mut self.out[(row + i) * self.out_stride + column..];
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

    /// Applies activation and residual to a tile that was just stored.
    #[inline(always)]
    fn finish<S: Simd>(&mut self, simd: S, rows: std::ops::Range<usize>, column: usize, width: usize) {
        if self.finish.activation.is_none() && self.finish.residual.is_none() {
            return;
        }
        for row in rows {
            let start = row * self.out_stride + column;
            self.finish.apply(simd, &mut self.out[start..][..width], start);
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
