//! Products of integers without rounding: rows in float64 by panels in float32, both of whole numbers below 2^23.
//!
//! ```text
//!             b00 b01 b02      a sum of CUT products is a whole number up to 2^53: exact in any order, fused or not;
//! a0 a1 ...  ─▶ + + +         then its multiple of 2^24 moves to a sum of its own, and the chain goes on from the rest
//! ```
//! The two sums are joined, scaled by powers of two and rounded to float32 once, so results depend on no order and no
//! width of vectors.

use pulp::{Simd, WithSimd};

use super::Arch;
use super::product::largest_tile;

/// Products between two cuts: 128 (2^23 - 2^15 - 2^8 - 1)^2 < 2^53 - 2^23.
const CUT: usize = 128;

/// The largest whole number: three signed digits of base 256.
pub const LARGEST: i32 = 127 * 0x01_01_01;

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

impl ExactProduct<'_> {
    /// Computes the product. One function per instruction set, shared by all callers.
    #[inline(never)]
    pub fn run(self, arch: Arch) {
        arch.dispatch(self);
    }
}

impl WithSimd for ExactProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        // The tallest tile that the rows fill; the last one is moved up to end with them.
        let [most, widest] = largest_tile::<S>();
        let tall = if self.rows >= most { most } else { self.rows.checked_ilog2().map_or(0, |log| 1 << log) };
        if tall == 0 {
            return;
        }
        for column in (0..self.columns).step_by(self.vectors * S::F64_LANES) {
            for row in (0..self.rows).step_by(tall) {
                let first = row.min(self.rows - tall);
                match self.vectors {
                    1 => self.tiles::<S, 1>(simd, tall, [first, row - first], column),
                    2 => self.tiles::<S, 2>(simd, tall, [first, row - first], column),
                    _ if widest == 3 => self.tiles::<S, 3>(simd, tall, [first, row - first], column),
                    _ => unreachable!("no wider panel on this instruction set"),
                }
            }
        }
    }
}

impl ExactProduct<'_> {
    #[inline(always)]
    fn tiles<S: Simd, const V: usize>(&mut self, simd: S, tall: usize, rows: [usize; 2], column: usize) {
        match tall {
            1 => self.tile::<S, 1, V>(simd, rows, column),
            2 => self.tile::<S, 2, V>(simd, rows, column),
            4 => self.tile::<S, 4, V>(simd, rows, column),
            6 if largest_tile::<S>()[0] == 6 => self.tile::<S, 6, V>(simd, rows, column),
            8 if largest_tile::<S>()[0] == 8 => self.tile::<S, 8, V>(simd, rows, column),
            _ => unreachable!("no taller tile on this instruction set"),
        }
    }

    /// `R` rows from `first` on, of which the first `done` are stored already, by a panel's columns.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const V: usize>(&mut self, simd: S, [first, done]: [usize; 2], column: usize) {
        // 1.5 * 2^76: adding it rounds to a multiple of 2^24.
        let magic = simd.splat_f64s(3.0 * (1u128 << 75) as f64);
        let width = V * S::F64_LANES;
        let panel = &self.panels[column * self.panel_depth..][..width * self.depth];
        let mut sums = [[simd.splat_f64s(0.0); V]; R];
        let mut high = sums;
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
                    b[j] = widened(simd, &line[j * S::F64_LANES..][..S::F64_LANES]);
                }
                for i in 0..R {
                    let x = simd.splat_f64s(a[i][k]);
                    for j in 0..V {
                        sums[i][j] = simd.mul_add_e_f64s(x, b[j], sums[i][j]);
                    }
                }
            }
            for i in 0..R {
                for j in 0..V {
                    let multiple = simd.sub_f64s(simd.add_f64s(sums[i][j], magic), magic);
                    high[i][j] = simd.add_f64s(high[i][j], multiple);
                    sums[i][j] = simd.sub_f64s(sums[i][j], multiple);
                }
            }
        }
        let scales = &self.column_scales[column..][..width];
        for i in done..R {
            let [high, rest]: [&[f64]; 2] = [bytemuck::cast_slice(&high[i]), bytemuck::cast_slice(&sums[i])];
            let scale = self.row_scales[first + i];
            let mut y = [0.0f32; 3 * 8];
            let y = &mut y[..width];
            for (((y, high), rest), own) in y.iter_mut().zip(high).zip(rest).zip(scales) {
                *y = rounded(*high, *rest, scale, *own);
            }
            let out = &mut self.out.0[(first + i) * self.out.1 + column..];
            if column + width <= self.columns {
                out[..width].copy_from_slice(y);
            } else {
                let rest = self.columns - column;
                out[..rest].copy_from_slice(&y[..rest]);
            }
        }
    }
}

/// Floats as a vector of float64.
#[inline(always)]
fn widened<S: Simd>(simd: S, line: &[f32]) -> S::f64s {
    let mut wide = simd.splat_f64s(0.0);
    let lanes: &mut [f64] = bytemuck::cast_slice_mut(std::slice::from_mut(&mut wide));
    for (wide, x) in lanes.iter_mut().zip(line) {
        *wide = f64::from(*x);
    }
    wide
}

/// `(high + rest) row column` to float32, rounded once: `high` is a multiple of 2^24, `|rest| <= 2^23`, both whole.
#[inline(always)]
fn rounded(high: f64, rest: f64, row: f64, column: f64) -> f32 {
    // Exact: the larger comes first.
    let sum = high + rest;
    let lost = rest - (sum - high);
    // Of the two float64 numbers around the sum the odd one, which rounds to float32 as the sum itself does.
    let bits = sum.to_bits();
    let outward = (lost > 0.0) == (sum > 0.0);
    let odd = if lost != 0.0 && bits & 1 == 0 { bits.wrapping_add(if outward { 1 } else { u64::MAX }) } else { bits };
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
mod tests {
    use super::*;
    use crate::backend::cpu::simd::{Arch, Widest};

    /// Digits in -LARGEST ..= LARGEST, often the largest.
    fn digits(count: usize, seed: u64) -> Vec<i32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) as i32
        };
        let digit = |x: i32| match x % 4 {
            0 => LARGEST,
            1 => -LARGEST,
            _ => x % (LARGEST + 1),
        };
        (0..count).map(|i| if seed == 0 { LARGEST - (i % 2) as i32 } else { digit(next()) }).collect()
    }

    #[test]
    fn sums_are_those_of_wide_integers() {
        for depth in [1usize, 15, 127, 128, 129, 130, 4097, 43690, 43691, 70000, 131_073] {
            let (rows, columns) = if depth > 5000 { (3, 2) } else { (13, 14) };
            for seed in [0, 7] {
                let (a, b) = (digits(rows * depth, seed), digits(columns * depth, seed * 3));
                let wide: Vec<f64> = a.iter().map(|a| f64::from(*a)).collect();
                let expected = (0..rows * columns).map(|at| {
                    let [a, b] = [&a[at / columns * depth..], &b[at % columns * depth..]].map(|of| &of[..depth]);
                    a.iter().zip(b).map(|(a, b)| i128::from(*a) * i128::from(*b)).sum::<i128>() as f32
                });
                let expected: Vec<f32> = expected.collect();
                let widest = |arch: Arch| (1..=Widest::of_wide(arch).vectors).map(move |vectors| (arch, vectors));
                for (arch, vectors) in Arch::all().into_iter().flat_map(widest) {
                    let width = vectors * Widest::of_wide(arch).lanes;
                    let padded = columns.next_multiple_of(width);
                    let mut panels = vec![0.0f32; padded * depth];
                    for (at, b) in b.iter().enumerate() {
                        let (n, k) = (at / depth, at % depth);
                        panels[n / width * width * depth + k * width + n % width] = *b as f32;
                    }
                    let (row_scales, column_scales) = (vec![1.0; rows], vec![1.0; padded]);
                    let mut y = vec![0.0f32; rows * columns];
                    ExactProduct {
                        a: (&wide, depth),
                        rows,
                        depth,
                        panels: &panels,
                        panel_depth: depth,
                        vectors,
                        columns,
                        row_scales: &row_scales,
                        column_scales: &column_scales,
                        out: (&mut y, columns),
                    }
                    .run(arch);
                    assert_eq!(y, expected, "{depth} {arch:?} {vectors}");
                }
            }
        }
    }

    #[test]
    fn sums_are_rounded_once_to_nearest_with_ties_to_even() {
        for places in 1..60 {
            for mantissa in [1u128 << 23, (1 << 23) + 1, (1 << 24) - 1, (1 << 24) - 2, 0x00ab_cdef] {
                for off in -3i128..=3 {
                    for sign in [1, -1] {
                        // Around the middle between two float32 numbers.
                        let sum = sign * ((mantissa << places) as i128 + (1i128 << (places - 1)) + off);
                        let high = (sum + (1 << 23)).div_euclid(1 << 24) << 24;
                        let found = rounded(high as f64, (sum - high) as f64, 1.0, 1.0);
                        assert_eq!(found.to_bits(), (sum as f32).to_bits(), "{sum}");
                    }
                }
            }
        }
    }

    #[test]
    fn results_beyond_the_normal_numbers_are_infinite_or_zeros_of_the_sign() {
        let power = |n: i32| 2f64.powi(n);
        for (rest, row, column, expected) in [
            (1.0, power(64), power(64), f32::INFINITY),
            (-1.0, power(300), power(-172), f32::NEG_INFINITY),
            (8_388_607.0, power(60), power(44), 8_388_607.0 * 2f32.powi(104)),
            (1.0, power(-63), power(-63), f32::MIN_POSITIVE),
            (1.0, power(-63), power(-64), 0.0),
            (-1.0, power(-400), power(200), -0.0),
            (0.0, power(-400), power(200), 0.0),
        ] {
            assert_eq!(rounded(0.0, rest, row, column).to_bits(), expected.to_bits(), "{rest} {row:e} {column:e}");
        }
        // Rounded first, then measured: this becomes the least normal number.
        let (high, rest) = ((1u64 << 40) as f64, -1.0);
        assert_eq!(rounded(high, rest, power(-100), power(-66)), f32::MIN_POSITIVE);
        assert!(rounded(16_777_216.0, 1.0, f64::NAN, 1.0).is_nan() && rounded(0.0, 0.0, 1.0, f64::NAN).is_nan());
    }
}
