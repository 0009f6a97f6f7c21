//! Products on vectors: blocks of rows by panels, chain by chain, and what becomes of the sums.

use std::cell::RefCell;
use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::tile::{CHAIN, Tile};
use super::{Arch, activate, add};
use crate::ops::ActivationKind;

/// Rows of the largest tile, and vectors side by side in one: of 32 registers 24 hold its sums, of 16 registers 12, so that some
/// are left for a row of B and more than one number of A; where all are in use the compiler keeps a sum in memory.
pub const fn largest_tile<S: Simd>() -> [usize; 2] {
    if S::REGISTER_COUNT >= 32 { [8, 3] } else { [6, 2] }
}

/// The widest panel of an instruction set.
#[derive(Clone, Copy)]
pub struct Widest {
    /// Vectors side by side.
    pub vectors: usize,
    /// Numbers of a vector.
    pub lanes: usize,
}

impl Widest {
    /// Of float32 numbers.
    pub fn of_floats(arch: Arch) -> Self {
        arch.dispatch(WidestOf).0
    }

    /// Of float64 numbers.
    pub fn of_wide(arch: Arch) -> Self {
        arch.dispatch(WidestOf).1
    }

    /// Columns of a panel.
    pub fn width(self) -> usize {
        self.vectors * self.lanes
    }
}

/// Of float32 numbers, and of float64 numbers.
struct WidestOf;

impl WithSimd for WidestOf {
    type Output = (Widest, Widest);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> Self::Output {
        let [_, vectors] = largest_tile::<S>();
        (Widest { vectors, lanes: S::F32_LANES }, Widest { vectors, lanes: S::F64_LANES })
    }
}

/// The factor applied to the sums.
#[derive(Clone, Copy)]
pub enum Scale<'a> {
    /// One factor for all rows.
    All(f32),
    /// One factor per row.
    Rows(&'a [f32]),
}

impl Default for Scale<'_> {
    fn default() -> Self {
        Scale::All(1.0)
    }
}

/// What follows a finished sum, applied while it is still in cache.
#[derive(Clone, Copy, Default)]
pub struct Finish<'a> {
    /// Added to the scaled sums, padded like the panels; empty for none.
    pub bias: &'a [f32],
    /// Applied after the bias.
    pub activation: Option<ActivationKind>,
    /// Added last, in the layout of the result.
    pub residual: Option<&'a [f32]>,
}

impl Finish<'_> {
    /// Applies activation and residual to the piece of the result that begins at `start`.
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

/// `out[i, j] = act(scale[i] sum_k a[i, k] b[k, j] + bias[j]) + residual[i, j]`; by default without what is optional.
#[derive(Default)]
pub struct Product<'a> {
    /// `[rows, depth]`, and how many elements rows are apart.
    pub a: (&'a [f32], usize),
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
    /// Vectors of a panel, 1 to those of [`Widest`].
    pub vectors: usize,
    /// Columns of the result.
    pub columns: usize,
    /// Applied to the sums.
    pub scale: Scale<'a>,
    /// Applied to the scaled sums.
    pub finish: Finish<'a>,
    /// `[rows, columns]`, and how many elements rows are apart.
    pub out: (&'a mut [f32], usize),
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
            let widest = Widest::of_floats(arch);
            let pays = self.vectors == widest.vectors
                && self.rows >= LEAST_PACKED
                && self.columns >= PANELS_TO_PACK * widest.width();
            // Whole tiles of 6 or 8 rows.
            let floats = if pays { self.rows.min(BLOCK_ROWS).next_multiple_of(24) * self.depth.min(CHAIN) } else { 0 };
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
            let [most, widest] = largest_tile::<S>();
            let tall = if count >= most { most } else { 1 << count.ilog2() };
            let tiles =
                (0..count).step_by(tall).map(|row| (first + row.min(count - tall), row.saturating_sub(count - tall)));
            let room = if tall == most { packed.len() } else { 0 };
            let packed = &mut packed[..room];
            let mut chain = product.first_chain();
            loop {
                let floats = tall * chain.terms.max(1);
                for ((row, _), tile) in tiles.clone().zip(packed.chunks_exact_mut(floats)) {
                    if tall == 8 { product.pack::<8>(chain, row, tile) } else { product.pack::<6>(chain, row, tile) }
                }
                for column in (0..product.columns).step_by(width) {
                    for (number, (row, done)) in tiles.clone().enumerate() {
                        let a = packed.chunks_exact(floats).nth(number);
                        let tile = Tile { row, done, column, chain };
                        match product.vectors {
                            1 => product.tiles::<S, 1>(simd, tall, tile, a),
                            2 => product.tiles::<S, 2>(simd, tall, tile, a),
                            _ if widest == 3 => product.tiles::<S, 3>(simd, tall, tile, a),
                            _ => unreachable!("no wider panel on this instruction set"),
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

impl Product<'_> {
    /// Applies activation and residual to a tile that was just stored.
    #[inline(always)]
    fn finish<S: Simd>(&mut self, simd: S, rows: std::ops::Range<usize>, column: usize, width: usize) {
        if self.finish.activation.is_none() && self.finish.residual.is_none() {
            return;
        }
        for row in rows {
            let start = row * self.out.1 + column;
            self.finish.apply(simd, &mut self.out.0[start..][..width], start);
        }
    }
}
