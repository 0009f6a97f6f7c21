//! Products of integers without rounding: rows in float64 by panels in float32, both of whole numbers below 2^23.
//!
//! ```text
//!             b00 b01 b02      a sum of CUT products is a whole number up to 2^53: exact in any order, fused or not;
//! a0 a1 ...  ─▶ + + +         then its multiple of 2^24 moves to a sum of its own, and the chain goes on from the rest
//! ```
//! The two sums are joined, scaled by powers of two and rounded to float32 once, so results depend on no order and no
//! width of vectors.

use std::cell::RefCell;

use pulp::{Simd, WithSimd};

use super::Arch;
use super::product::{Widest, largest_tile};

/// Products between two cuts: 128 (2^23 - 2^15 - 2^8 - 1)^2 < 2^53 - 2^23.
const CUT: usize = 128;

/// `out[i, j] = row_scales[i] column_scales[j] sum_k a[i, k] b[k, j]`, rounded once to nearest, ties to even; below the normal
/// numbers a zero of the sum's sign.
pub struct ExactProduct<'a> {
    /// Whole numbers `[rows, depth]`, and how many elements rows are apart.
    pub a: (&'a [f64], usize),
    /// Rows of A and of the result.
    pub rows: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
    /// B cut into panels of `vectors` vectors: `[panel][panel_depth][vectors * lanes]`, padded with zeros.
    pub panels: &'a [f32],
    /// Rows of a panel, of which the first `depth` are multiplied.
    pub panel_depth: usize,
    /// Vectors of a panel, 1 to those of `Widest`.
    pub vectors: usize,
    /// Columns of the result.
    pub columns: usize,
    /// Powers of two, or NaN for rows that have no numbers.
    pub row_scales: &'a [f64],
    /// The same of columns, padded like the panels.
    pub column_scales: &'a [f64],
    /// `[rows, columns]`, and how many elements rows are apart.
    pub out: (&'a mut [f32], usize),
}

/// Rows from which on a panel is widened once for all of them.
const WIDENED_ROWS: usize = 24;

/// Elements of a widened panel: a quarter of a second-level cache.
const WIDENED: usize = 1 << 15;

thread_local! {
    /// A panel in float64, per thread, reused between products.
    static PANEL: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}

impl ExactProduct<'_> {
    /// Computes the product. One function per instruction set, shared by all callers.
    #[inline(never)]
    pub fn run(self, arch: Arch) {
        PANEL.with_borrow_mut(|panel| {
            let elements = Widest::of_wide(arch).width() * self.depth;
            let pays =
                self.vectors == Widest::of_wide(arch).vectors && self.rows >= WIDENED_ROWS && elements <= WIDENED;
            // Without memory the panels are read in place: the same bits.
            if pays && panel.len() < elements && panel.try_reserve_exact(elements - panel.len()).is_ok() {
                panel.resize(elements, 0.0);
            }
            let wide = if pays { panel.get_mut(..elements) } else { None };
            arch.dispatch(Widening { product: self, wide });
        });
    }
}

/// A product, with memory for a panel in float64 if that pays.
struct Widening<'a, 'p> {
    product: ExactProduct<'p>,
    wide: Option<&'a mut [f64]>,
}

impl WithSimd for Widening<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Widening { mut product, mut wide } = self;
        // The tallest tile that the rows fill; the last one is moved up to end with them.
        let [most, widest] = largest_tile::<S>();
        let rows = product.rows;
        let tall = if rows >= most { most } else { rows.checked_ilog2().map_or(0, |log| 1 << log) };
        if tall == 0 {
            return;
        }
        let width = product.vectors * S::F64_LANES;
        for column in (0..product.columns).step_by(width) {
            let panel = &product.panels[column * product.panel_depth..][..width * product.depth];
            if let Some(wide) = &mut wide {
                wide.iter_mut().zip(panel).for_each(|(wide, x)| *wide = f64::from(*x));
            }
            for row in (0..rows).step_by(tall) {
                let first = row.min(rows - tall);
                let at = ([first, row - first], column);
                match (product.vectors, &wide) {
                    (1, _) => product.tiles::<S, 1>(simd, tall, at, panel),
                    (2, None) => product.tiles::<S, 2>(simd, tall, at, panel),
                    (2, Some(wide)) if widest == 2 => product.tile::<S, f64, 6, 2>(simd, at, wide),
                    (_, None) if widest == 3 => product.tiles::<S, 3>(simd, tall, at, panel),
                    (_, Some(wide)) if widest == 3 => product.tile::<S, f64, 8, 3>(simd, at, wide),
                    _ => unreachable!("no wider panel on this instruction set"),
                }
            }
        }
    }
}

/// A number of a panel.
trait Number: Copy {
    /// A vector of them.
    fn vector<S: Simd>(simd: S, line: &[Self]) -> S::f64s;
}

impl Number for f32 {
    #[inline(always)]
    fn vector<S: Simd>(simd: S, line: &[f32]) -> S::f64s {
        let mut wide = simd.splat_f64s(0.0);
        let lanes: &mut [f64] = bytemuck::cast_slice_mut(std::slice::from_mut(&mut wide));
        for (wide, x) in lanes.iter_mut().zip(line) {
            *wide = f64::from(*x);
        }
        wide
    }
}

impl Number for f64 {
    #[inline(always)]
    fn vector<S: Simd>(_: S, line: &[f64]) -> S::f64s {
        S::as_simd_f64s(line).0[0]
    }
}

/// The first row of a tile and how many of its rows are stored already, and its first column.
type Place = ([usize; 2], usize);

impl ExactProduct<'_> {
    #[inline(always)]
    fn tiles<S: Simd, const V: usize>(&mut self, simd: S, tall: usize, at: Place, panel: &[f32]) {
        match tall {
            1 => self.tile::<S, f32, 1, V>(simd, at, panel),
            2 => self.tile::<S, f32, 2, V>(simd, at, panel),
            4 => self.tile::<S, f32, 4, V>(simd, at, panel),
            6 if largest_tile::<S>()[0] == 6 => self.tile::<S, f32, 6, V>(simd, at, panel),
            8 if largest_tile::<S>()[0] == 8 => self.tile::<S, f32, 8, V>(simd, at, panel),
            _ => unreachable!("no taller tile on this instruction set"),
        }
    }

    /// `R` rows by a panel's columns.
    #[inline(always)]
    fn tile<S: Simd, B: Number, const R: usize, const V: usize>(
        &mut self,
        simd: S,
        ([first, done], column): Place,
        panel: &[B],
    ) {
        // 1.5 * 2^76: adding it rounds to a multiple of 2^24.
        let magic = simd.splat_f64s(3.0 * (1u128 << 75) as f64);
        let width = V * S::F64_LANES;
        let panel = &panel[..width * self.depth];
        let mut sums = [[simd.splat_f64s(0.0); V]; R];
        let mut high = sums;
        // The sum of so few products is exact, and needs no second one.
        let short = self.depth <= CUT;
        for from in (0..self.depth).step_by(CUT) {
            let terms = CUT.min(self.depth - from);
            let lines = &panel[from * width..][..terms * width];
            let mut a: [&[f64]; R] = [&[]; R];
            for (i, a) in a.iter_mut().enumerate() {
                *a = &self.a.0[(first + i) * self.a.1 + from..][..terms];
            }
            for (k, line) in lines.chunks_exact(width).enumerate() {
                let mut b = [simd.splat_f64s(0.0); V];
                for j in 0..V {
                    b[j] = B::vector(simd, &line[j * S::F64_LANES..][..S::F64_LANES]);
                }
                for i in 0..R {
                    let x = simd.splat_f64s(a[i][k]);
                    for j in 0..V {
                        sums[i][j] = simd.mul_add_e_f64s(x, b[j], sums[i][j]);
                    }
                }
            }
            for i in 0..if short { 0 } else { R } {
                for j in 0..V {
                    let multiple = simd.sub_f64s(simd.add_f64s(sums[i][j], magic), magic);
                    high[i][j] = simd.add_f64s(high[i][j], multiple);
                    sums[i][j] = simd.sub_f64s(sums[i][j], multiple);
                }
            }
        }
        let scales = &self.column_scales[column..][..width];
        // What a variable indexes lies in memory: a copy of the sums, or the compiler stores them at each term.
        let [high, sums] = std::hint::black_box([high, sums]);
        for i in done..R {
            let [high, rest]: [&[f64]; 2] = [bytemuck::cast_slice(&high[i]), bytemuck::cast_slice(&sums[i])];
            let scale = self.row_scales[first + i];
            let out = &mut self.out.0[(first + i) * self.out.1 + column..];
            let (mut padded, rest_of) = ([0.0f32; 3 * 8], self.columns - column);
            // In place, unless the panel is padded: what is copied has to leave the store buffer first.
            let y = if width <= rest_of { &mut out[..width] } else { &mut padded[..width] };
            if short {
                for ((y, sum), own) in y.iter_mut().zip(rest).zip(scales) {
                    *y = scaled(*sum as f32, scale, *own);
                }
            } else {
                for (((y, high), rest), own) in y.iter_mut().zip(high).zip(rest).zip(scales) {
                    *y = rounded(*high, *rest, scale, *own);
                }
            }
            if rest_of < width {
                out[..rest_of].copy_from_slice(&padded[..rest_of]);
            }
        }
    }
}

/// `(high + rest) row column` to float32, rounded once: `high` is a multiple of 2^24, `|rest| <= 2^23`, both whole. Without
/// branches, for LLVM to vectorize.
#[inline(always)]
fn rounded(high: f64, rest: f64, row: f64, column: f64) -> f32 {
    // Exact: the larger comes first.
    let sum = high + rest;
    let lost = rest - (sum - high);
    // Of the two float64 numbers around the sum the odd one, which rounds to float32 as the sum itself does.
    let bits = sum.to_bits();
    let outward = (lost > 0.0) == (sum > 0.0);
    let odd = bits.wrapping_add(if outward { 1 } else { u64::MAX });
    let odd = if (lost != 0.0) & (bits & 1 == 0) { odd } else { bits };
    scaled(f64::from_bits(odd) as f32, row, column)
}

/// A sum of 24 bits times powers of two, or NaN; below the normal numbers a zero of its sign.
#[inline(always)]
pub fn scaled(sum: f32, row: f64, column: f64) -> f32 {
    // Exact but for infinity.
    let scaled = f64::from(sum) * row * column;
    let small = scaled.abs() < f64::from(f32::MIN_POSITIVE);
    if small { 0.0f32.copysign(scaled as f32) } else { scaled as f32 }
}

#[cfg(test)]
mod tests;
