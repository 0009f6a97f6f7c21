//! The one inner loop of every product: a few rows of A against one panel of B, sums held in registers.
//!
//! ```text
//!            panel: [depth, V vectors]
//!            b00 b01 b02      each element of the result is its own chain of multiply-adds over k = 0, 1, 2 ...,
//! a0 a1 ...  ─▶ + + +         cut into blocks of DEPTH whose sums are added in order.
//! ```
//! The chain is the same for every tile height and width, for every neighbour and for every split of the work, so
//! the order of summation depends on the depth alone.

use pulp::{Simd, WithSimd};

use super::{Arch, activate, add};
use crate::ops::ActivationKind;

/// Vectors side by side in a panel of weights: 8 rows x 3 vectors of sums leave registers for one row of B.
pub const PANEL_VECTORS: usize = 3;

/// Terms of a chain: shorter chains round less, and a panel's block stays in the nearest cache.
const DEPTH: usize = 384;

/// Most rows of a tile.
const ROWS: usize = 8;

/// Floats of one vector.
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

/// Rows of the tallest tile whose sums still fit in registers.
#[inline(always)]
const fn rows_at_once<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { ROWS } else { ROWS / 2 }
}

/// Factor on the sums.
#[derive(Clone, Copy)]
pub enum Scale<'a> {
    /// One for all.
    All(f32),
    /// One a row.
    Rows(&'a [f32]),
}

/// What happens to a finished sum while it is still near.
#[derive(Clone, Copy, Default)]
pub struct Finish<'a> {
    /// Applied first.
    pub activation: Option<ActivationKind>,
    /// Added last; laid out as the result.
    pub residual: Option<&'a [f32]>,
}

/// `out[i, j] = act(scale[i] sum_k a[i, k] b[k, j] + bias[j]) + residual[i, j]`
pub struct Product<'a> {
    /// `[rows, depth]`, rows `a_stride` apart.
    pub a: &'a [f32],
    /// Elements from a row of A to the next.
    pub a_stride: usize,
    /// Rows of A and of the result.
    pub rows: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
    /// B cut into panels of `vectors` vectors: `[panel][depth][vectors * lanes]`, padded with zeros.
    pub panels: &'a [f32],
    /// Vectors of a panel, 1 to 3.
    pub vectors: usize,
    /// Columns of the result.
    pub columns: usize,
    /// On the sums.
    pub scale: Scale<'a>,
    /// Added to the scaled sums, padded like the panels; empty for none.
    pub bias: &'a [f32],
    /// After the bias.
    pub finish: Finish<'a>,
    /// `[rows, columns]`, rows `out_stride` apart.
    pub out: &'a mut [f32],
    /// Elements from a row of the result to the next.
    pub out_stride: usize,
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.run(simd);
    }
}

impl Product<'_> {
    /// Rows that stay in the second-level cache while all panels pass by.
    #[inline(always)]
    fn block_rows(&self) -> usize {
        const FLOATS: usize = 128 * 1024;
        (FLOATS / self.depth.max(1)).clamp(2 * ROWS, 32 * ROWS) / ROWS * ROWS
    }

    /// Runs it inside a function already compiled for `S`.
    #[inline(always)]
    pub fn run<S: Simd>(mut self, simd: S) {
        match self.vectors {
            1 => self.blocks::<S, 1>(simd),
            2 => self.blocks::<S, 2>(simd),
            _ => self.blocks::<S, PANEL_VECTORS>(simd),
        }
    }

    #[inline(always)]
    fn blocks<S: Simd, const V: usize>(&mut self, simd: S) {
        let width = V * S::F32_LANES;
        let block = self.block_rows();
        let most = rows_at_once::<S>();
        for first in (0..self.rows).step_by(block) {
            let count = block.min(self.rows - first);
            // Tiles of nearly equal height: no lonely last row.
            let tiles = count.div_ceil(most);
            for (number, column) in (0..self.columns).step_by(width).enumerate() {
                for tile in 0..tiles {
                    let (from, to) = (first + count * tile / tiles, first + count * (tile + 1) / tiles);
                    self.tile_of::<S, V>(simd, number, from, to - from);
                }
                self.finish::<S>(simd, first..first + count, column, width.min(self.columns - column));
            }
        }
    }

    #[inline(always)]
    fn tile_of<S: Simd, const V: usize>(&mut self, simd: S, panel: usize, row: usize, rows: usize) {
        match rows {
            1 => self.tile::<S, 1, V>(simd, panel, row),
            2 => self.tile::<S, 2, V>(simd, panel, row),
            3 => self.tile::<S, 3, V>(simd, panel, row),
            4 => self.tile::<S, 4, V>(simd, panel, row),
            5 if S::REGISTER_COUNT >= 32 => self.tile::<S, 5, V>(simd, panel, row),
            6 if S::REGISTER_COUNT >= 32 => self.tile::<S, 6, V>(simd, panel, row),
            7 if S::REGISTER_COUNT >= 32 => self.tile::<S, 7, V>(simd, panel, row),
            _ if S::REGISTER_COUNT >= 32 => self.tile::<S, 8, V>(simd, panel, row),
            _ => unreachable!("tiles are at most rows_at_once high"),
        }
    }

    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(&mut self, simd: S, panel: usize, row: usize) {
        let width = V * S::F32_LANES;
        let (b, _) = S::as_simd_f32s(&self.panels[panel * width * self.depth..][..width * self.depth]);
        let (b, _) = b.as_chunks::<V>();
        let a: [&[f32]; R] = std::array::from_fn(
            #[inline(always)]
            |i| &self.a[(row + i) * self.a_stride..][..self.depth],
        );
        let mut sums = chains::<S, R, V>(simd, a, b, 0, self.depth.min(DEPTH));
        let mut from = DEPTH;
        while from < self.depth {
            let more = chains::<S, R, V>(simd, a, b, from, (self.depth - from).min(DEPTH));
            for i in 0..R {
                for j in 0..V {
                    sums[i][j] = simd.add_f32s(sums[i][j], more[i][j]);
                }
            }
            from += DEPTH;
        }
        self.store::<S, R, V>(simd, sums, panel * width, row);
    }

    #[inline(always)]
    fn store<S: Simd, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        sums: [[S::f32s; V]; R],
        column: usize,
        row: usize,
    ) {
        let width = V * S::F32_LANES;
        let mut bias = [simd.splat_f32s(0.0); V];
        if !self.bias.is_empty() {
            bias.copy_from_slice(S::as_simd_f32s(&self.bias[column..][..width]).0);
        }
        for (i, sums) in sums.iter().enumerate() {
            let scale = simd.splat_f32s(match self.scale {
                Scale::All(scale) => scale,
                Scale::Rows(scales) => scales[row + i],
            });
            let start = (row + i) * self.out_stride + column;
            if column + width <= self.columns {
                let (out, _) = S::as_mut_simd_f32s(&mut self.out[start..][..width]);
                for ((out, sum), bias) in out.iter_mut().zip(sums).zip(bias) {
                    *out = simd.mul_add_f32s(*sum, scale, bias);
                }
            } else {
                let out = &mut self.out[start..][..self.columns - column];
                for ((out, sum), bias) in out.chunks_mut(S::F32_LANES).zip(sums).zip(bias) {
                    simd.partial_store_f32s(out, simd.mul_add_f32s(*sum, scale, bias));
                }
            }
        }
    }

    /// Activation and residual of a block that was just stored.
    #[inline(always)]
    fn finish<S: Simd>(&mut self, simd: S, rows: std::ops::Range<usize>, column: usize, width: usize) {
        if let Some(kind) = self.finish.activation {
            for row in rows.clone() {
                activate(simd, kind, &mut self.out[row * self.out_stride + column..][..width]);
            }
        }
        if let Some(residual) = self.finish.residual {
            for row in rows {
                let start = row * self.out_stride + column;
                add(simd, &mut self.out[start..][..width], &residual[start..][..width]);
            }
        }
    }
}

/// `sum_k a[i][k] b[k][j]` for `k` in `from..from + count`, every sum one chain.
#[inline(always)]
fn chains<S: Simd, const R: usize, const V: usize>(
    simd: S,
    a: [&[f32]; R],
    b: &[[S::f32s; V]],
    from: usize,
    count: usize,
) -> [[S::f32s; V]; R] {
    // Slices of one known length: the loop below is free of bounds checks.
    let b = &b[from..][..count];
    let mut rows: [&[f32]; R] = [&[]; R];
    for i in 0..R {
        rows[i] = &a[i][from..][..count];
    }
    let mut sums = [[simd.splat_f32s(0.0); V]; R];
    for k in 0..count {
        for i in 0..R {
            let x = simd.splat_f32s(rows[i][k]);
            for j in 0..V {
                sums[i][j] = simd.mul_add_f32s(x, b[k][j], sums[i][j]);
            }
        }
    }
    sums
}
