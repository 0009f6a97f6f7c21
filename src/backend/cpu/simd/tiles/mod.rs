//! Products on the processor's tile registers (AMX), with the precision of float32.
//!
//! The tile unit multiplies bfloat16 and sums in float32, at sixteen times as many terms per cycle as the vector unit.
//! A float is exactly the sum of three bfloat16 numbers, `x = x0 + x1 + x2` with `|x1| <= 2^-8 |x|`, `|x2| <= 2^-16
//! |x|`, so six products of parts replace one product of floats:
//!
//! ```text
//! a b = a0 b2 + a0 b1 + a1 b1 + a1 b0 + a2 b0 + a0 b0      (a1 b2 + a2 b1 + a2 b2 < 2^-23 |a b| are left out)
//! ```
//! (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype for Higher-Precision Computations,
//! 2019.) Sums run over k in blocks of 32 from first to last, so their order depends on the depth alone.
//!
//! ```text
//! packed:  [panel of 32][block of 32 k][part 0, 1, 2][tile 0, 1][16 x 64 bytes]     of A: panel of rows, of B: of columns
//! a row of a tile of A: (k, k + 16) pairs of one row; row i of a tile of B: (k = i, k = i + 16) of 16 columns
//! ```

mod control;
mod parts;
#[cfg(test)]
mod tests;
// Miri runs no assembly.
#[cfg_attr(any(miri, not(all(target_arch = "x86_64", target_os = "linux"))), path = "none.rs")]
mod unit;

use std::cell::RefCell;

use pulp::{Simd, WithSimd};

use super::Arch;
use super::product::Finish;
use crate::Result;
use crate::backend::cpu::floats::Floats;
pub use control::Standard;
#[cfg(test)]
pub use control::altered;
use parts::{BLOCK, PANEL_BLOCK, TILE, split_some, unpacked};
pub use parts::{PackPanel, panel_floats};

/// Rows of A, and columns of B, that are multiplied at a time: two tiles.
pub const PANEL: usize = 32;

/// Bytes of A's parts that stay in the second-level cache during the loop over all panels of B.
const CACHED: usize = 1152 << 10;

/// `out[i, j] = act(sum_k a[i, k] b[k, j] + bias[j]) + residual[i, j]`
pub struct TileProduct<'a> {
    /// `[rows, depth]`
    pub a: &'a [f32],
    /// Rows of A and of the result.
    pub rows: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
    /// B, packed by [`PackPanel`].
    pub panels: &'a [f32],
    /// Columns of the result.
    pub columns: usize,
    /// Applied to the sums.
    pub finish: Finish<'a>,
    /// `[rows, columns]`
    pub out: &'a mut [f32],
}

thread_local! {
    /// A's parts, per thread, reused between products.
    static PARTS: RefCell<Floats> = RefCell::default();
}

impl TileProduct<'_> {
    /// Computes the product.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn run(mut self, arch: Arch, unit: TileUnit) -> Result<()> {
        let panel = panel_floats(self.depth);
        let block = (CACHED / (4 * panel.max(1))).clamp(1, 16) * PANEL;
        PARTS.with_borrow_mut(|parts| {
            parts.resize(block.min(self.rows).div_ceil(PANEL) * panel, "a product's parts")?;
            let configured = unit.configure();
            for first in (0..self.rows).step_by(block) {
                let rows = first..self.rows.min(first + block);
                arch.dispatch(RowBlock { product: &mut self, configured: &configured, parts, rows });
            }
            Ok(())
        })
    }
}

impl TileProduct<'_> {
    /// The epilogue of up to 32 sums of a row, from `column` on.
    #[inline(always)]
    fn store<S: Simd>(&mut self, simd: S, row: usize, column: usize, sums: &[f32]) {
        let width = PANEL.min(self.columns - column);
        let start = row * self.columns + column;
        let out = &mut self.out[start..][..width];
        let bias = self.finish.bias.get(column..column + PANEL).unwrap_or(&[]);
        if width < PANEL {
            out.copy_from_slice(&sums[..width]);
            out.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
        } else {
            let (sums, out) = (S::as_simd_f32s(sums).0, S::as_mut_simd_f32s(out).0);
            if bias.is_empty() {
                out.copy_from_slice(sums);
            }
            for ((y, x), bias) in out.iter_mut().zip(sums).zip(S::as_simd_f32s(bias).0) {
                *y = simd.add_f32s(*x, *bias);
            }
        }
        self.finish.apply(simd, out, start);
    }
}

/// Some rows of a product, few enough for their parts to stay in cache.
struct RowBlock<'a, 'p> {
    product: &'a mut TileProduct<'p>,
    configured: &'a Configured,
    parts: &'a mut [f32],
    rows: std::ops::Range<usize>,
}

impl WithSimd for RowBlock<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let RowBlock { product, configured, parts, rows } = self;
        let (depth, panel) = (product.depth, panel_floats(product.depth));
        let mut bad = Vec::new();
        let mut of_row = [[0.0; 16]; 3];
        for (i, row) in product.a[rows.start * depth..rows.end * depth].chunks_exact(depth.max(1)).enumerate() {
            let mut good = true;
            let own = &mut parts[i / PANEL * panel..][..panel];
            for (x, block) in row.chunks(BLOCK).zip(own.chunks_exact_mut(PANEL_BLOCK)) {
                good &= split_some(simd, x, &mut of_row);
                for (part, tiles) in of_row.iter().zip(block.chunks_exact_mut(2 * TILE)) {
                    tiles[i % PANEL * 16..][..16].copy_from_slice(part);
                }
            }
            if !good {
                bad.push(rows.start + i);
            }
        }
        let mut sums = Sums([0.0; PANEL * PANEL]);
        // While the rows are multiplied with a panel of B, the next panel is prefetched, a share per 32 rows.
        let share = panel / rows.len().div_ceil(PANEL).max(1);
        for column in (0..product.columns).step_by(PANEL) {
            let b = &product.panels[column / PANEL * panel..][..panel];
            let next = product.panels.get((column / PANEL + 1) * panel..).filter(|next| !next.is_empty()).unwrap_or(b);
            for (number, top) in rows.clone().step_by(PANEL).enumerate() {
                let count = PANEL.min(rows.end - top);
                let (a, next) = (&parts[number * panel..][..panel], &next[number * share..][..share]);
                configured.multiply(a, b, count, next, &mut sums);
                for (i, sums) in sums.0.chunks_exact(PANEL).take(count).enumerate() {
                    product.store(simd, top + i, column, sums);
                }
            }
        }
        // Infinity cannot be split: its product with a zero part would be NaN. Such rows are multiplied directly.
        for row in bad {
            let a = &product.a[row * depth..][..depth];
            for j in 0..product.columns {
                let b = |k| unpacked(product.panels, depth, k, j);
                let sum = a.iter().enumerate().fold(0.0f32, |sum, (k, x)| x.mul_add(b(k), sum));
                product.out[row * product.columns + j] = sum + product.finish.bias.get(j).unwrap_or(&0.0);
            }
            let start = row * product.columns;
            product.finish.apply(simd, &mut product.out[start..][..product.columns], start);
        }
    }
}

/// `[32, 32]`
#[repr(align(64))]
struct Sums([f32; PANEL * PANEL]);

/// Proof that this process may use the tile registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileUnit(());

/// Proof that this thread's tile registers are configured; they are released on drop.
pub(super) struct Configured(std::marker::PhantomData<*const ()>);
