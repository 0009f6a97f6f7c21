//! The inner loop of products on vectors: a few rows of A against one panel of B, sums held in registers.
//!
//! ```text
//!            panel: [depth, V vectors]
//!            b00 b01 b02      each element of the result is its own chain of multiply-adds over k = 0, 1, 2 ...,
//! a0 a1 ...  ─▶ + + +         cut into chains of CHAIN whose sums are added in order.
//! ```
//! The chain is the same for every tile height and width, for every neighbour and for every split of the work, so
//! the order of summation depends on the depth alone.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::{Arch, activate, add};
use crate::ops::ActivationKind;

/// Vectors side by side in a panel of weights: 8 rows x 3 vectors of sums leave registers for one row of B.
pub const PANEL_VECTORS: usize = 3;

/// Terms of a chain: shorter chains round less, and a panel's block stays in the nearest cache. Every panel's width divides it.
pub const CHAIN: usize = 384;

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
    /// Elements from a row of A to the next.
    pub a_stride: usize,
    /// Rows of A and of the result.
    pub rows: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
    /// Whole chains that are left out: terms that are known to be zeros; empty for none.
    pub skip: Range<usize>,
    /// B cut into panels of `vectors` vectors: `[panel][panel_depth][vectors * lanes]`, padded with zeros.
    pub panels: &'a [f32],
    /// Rows of a panel, of which the first `depth` are multiplied.
    pub panel_depth: usize,
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

impl Product<'_> {
    /// Computes it. One function an instruction set, whoever calls: the tiles are much code.
    #[inline(never)]
    pub fn run(self, arch: Arch) {
        arch.dispatch(self);
    }

    /// Rows that stay in the second-level cache while all panels pass by.
    fn block_rows(&self) -> usize {
        const FLOATS: usize = 128 * 1024;
        (FLOATS / self.depth.max(1)).clamp(16, 256) / 8 * 8
    }
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let width = self.vectors * S::F32_LANES;
        let block = self.block_rows();
        for first in (0..self.rows).step_by(block) {
            let count = block.min(self.rows - first);
            // The tallest tile whose sums fit in registers. The last tile of a block is moved up to end with it: what
            // two tiles compute both is the same in every bit.
            let most = if S::REGISTER_COUNT >= 32 { 8 } else { 4 };
            let tall = if count >= most { most } else { count.next_power_of_two().min(most) };
            let tall = if tall > count { tall / 2 } else { tall };
            for column in (0..self.columns).step_by(width) {
                let mut row = 0;
                while row < count {
                    let top = first + row.min(count - tall);
                    match self.vectors {
                        1 => self.tiles::<S, 1>(simd, tall, column, top),
                        2 => self.tiles::<S, 2>(simd, tall, column, top),
                        _ => self.tiles::<S, PANEL_VECTORS>(simd, tall, column, top),
                    }
                    row += tall;
                }
                self.finish(simd, first..first + count, column, width.min(self.columns - column));
            }
        }
    }
}

impl Product<'_> {
    #[inline(always)]
    fn tiles<S: Simd, const V: usize>(&mut self, simd: S, tall: usize, column: usize, row: usize) {
        match tall {
            1 => self.tile::<S, 1, V>(simd, column, row),
            2 => self.tile::<S, 2, V>(simd, column, row),
            4 => self.tile::<S, 4, V>(simd, column, row),
            _ if S::REGISTER_COUNT >= 32 => self.tile::<S, 8, V>(simd, column, row),
            _ => unreachable!("no taller tile on this instruction set"),
        }
    }

    /// `R` rows from `row` on, one panel's columns from `column` on.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(&mut self, simd: S, column: usize, row: usize) {
        let width = V * S::F32_LANES;
        let panel = &self.panels[column * self.panel_depth..][..width * self.depth];
        let b = S::as_simd_f32s(panel).0.as_chunks::<V>().0;
        let mut sums = [[simd.splat_f32s(0.0); V]; R];
        let mut from = if self.skip.start == 0 { self.skip.end } else { 0 };
        while from < self.depth {
            let count = (self.depth - from).min(CHAIN);
            // Slices of one known length: the loop below is free of bounds checks.
            let b = &b[from..][..count];
            let mut a: [&[f32]; R] = [&[]; R];
            for (i, a) in a.iter_mut().enumerate() {
                *a = &self.a[(row + i) * self.a_stride + from..][..count];
            }
            let mut chains = [[simd.splat_f32s(0.0); V]; R];
            for k in 0..count {
                for i in 0..R {
                    let x = simd.splat_f32s(a[i][k]);
                    for j in 0..V {
                        chains[i][j] = simd.mul_add_f32s(x, b[k][j], chains[i][j]);
                    }
                }
            }
            for i in 0..R {
                for j in 0..V {
                    sums[i][j] = simd.add_f32s(sums[i][j], chains[i][j]);
                }
            }
            from += CHAIN;
            if from == self.skip.start {
                from = self.skip.end;
            }
        }
        let mut bias = [simd.splat_f32s(0.0); V];
        if !self.bias.is_empty() {
            bias.copy_from_slice(S::as_simd_f32s(&self.bias[column..][..width]).0);
        }
        let whole = column + width <= self.columns;
        // A loop, not unrolled code: it runs once a tile.
        for (i, sums) in sums.iter().enumerate() {
            let scale = simd.splat_f32s(match self.scale {
                Scale::All(scale) => scale,
                Scale::Rows(scales) => scales[row + i],
            });
            let out = &mut self.out[(row + i) * self.out_stride + column..];
            if whole {
                let out = S::as_mut_simd_f32s(&mut out[..width]).0;
                for j in 0..V {
                    out[j] = simd.mul_add_f32s(sums[j], scale, bias[j]);
                }
            } else {
                let out = &mut out[..self.columns - column];
                for (j, out) in out.chunks_mut(S::F32_LANES).enumerate() {
                    simd.partial_store_f32s(out, simd.mul_add_f32s(sums[j], scale, bias[j]));
                }
            }
        }
    }

    /// Activation and residual of a block that was just stored.
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
