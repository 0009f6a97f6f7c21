//! Rows of `x` as integers, and their products with a weight.

use super::weight::{Exact, Form};
use super::{Powers, balanced, integers};
use crate::backend::cpu::simd::{Arch, DigitRows, ExactProduct, TILED, digits_of, multiply_digits, scaled};

/// Rows of `x` as integers in float64 or as digits, and their scales.
#[derive(Default)]
pub(super) struct ExactRows {
    pub(super) q: Vec<f64>,
    pub(super) digits: Vec<i8>,
    /// Of digits, [`DigitRows::excess`] of each row.
    excess: Vec<i64>,
    scales: Vec<f64>,
}

impl Exact {
    /// The integers of rows of `x`, and their scales, in memory that is reused.
    pub(super) fn rows(&self, arch: Arch, x: &[f32], rows: &mut ExactRows) {
        let Powers { shifts, factors } = &self.powers;
        let (count, depth) = (x.len() / self.depth, self.depth);
        let bytes = if let Form::Digits { bytes, .. } = self.form { bytes } else { 0 };
        let ExactRows { q, digits, excess, scales } = rows;
        q.resize(if bytes == 0 { count * depth } else { depth }, 0.0);
        digits.resize(count * 3 * bytes, 0);
        scales.resize(count, 0.0);
        arch.vectorized(inlined!(|| {
            for (i, (x, scale)) in x.chunks_exact(depth).zip(scales.iter_mut()).enumerate() {
                let q = &mut q[if bytes == 0 { i * depth } else { 0 }..][..depth];
                let exponent = if shifts.is_empty() {
                    integers(x, q)
                } else {
                    let (shifts, factors) = (&shifts[..x.len()], &factors[..x.len()]);
                    balanced(x, q, inlined!(|k| shifts[k]), inlined!(|k| factors[k]))
                };
                *scale = super::scale(exponent);
                if bytes > 0 {
                    let digits = &mut digits[i * 3 * bytes..][..3 * bytes];
                    let (low, rest) = digits.split_at_mut(bytes);
                    let (middle, high) = rest.split_at_mut(bytes);
                    for (((low, middle), high), q) in
                        low.iter_mut().zip(middle.iter_mut()).zip(high.iter_mut()).zip(&*q)
                    {
                        [*low, *middle, *high] = digits_of(*q as i32);
                    }
                    [low, middle, high].into_iter().for_each(|digit| digit[depth..].fill(0));
                }
            }
            if bytes > 0 {
                let of = DigitRows { digits, bytes };
                excess.clear();
                excess.extend((0..count).map(|row| of.excess(row)));
            }
        }));
    }

    /// Computes columns of `out [rows, columns]` from panel `first` on, of rows that are integers.
    pub(super) fn multiply(&self, arch: Arch, rows: &ExactRows, first: usize, out: (&mut [f32], usize)) {
        let column = first * self.width;
        match &self.form {
            Form::Floats { panels, vectors } => ExactProduct {
                a: (&rows.q, self.depth),
                rows: rows.scales.len(),
                depth: self.depth,
                panels: &panels[column * self.depth..],
                panel_depth: self.depth,
                vectors: *vectors,
                columns: out.1,
                row_scales: &rows.scales,
                column_scales: &self.scales[column..],
                out,
            }
            .run(arch),
            Form::Digits { panels, unit, bytes } => {
                let (out, columns) = out;
                let panel = 3 * unit.lines(self.depth);
                let panels = &panels[first * panel..][..columns.div_ceil(self.width) * panel];
                let digits = DigitRows { digits: &rows.digits, bytes: *bytes };
                multiply_digits(*unit, &digits, panels, |top, number, sums| {
                    let from = number * self.width;
                    let count = self.width.min(columns - from);
                    let own = &self.scales[column + from..][..count];
                    arch.vectorized(inlined!(|| {
                        for (i, row) in rows.scales[top..].iter().take(TILED).enumerate() {
                            let of = sums.0.each_ref().map(|sums| &sums[i][..count]);
                            let excess = rows.excess[top + i];
                            let y = &mut out[(top + i) * columns + from..][..count];
                            for (j, (y, scale)) in y.iter_mut().zip(own).enumerate() {
                                let sum = of.iter().rev().fold(0, |sum, of| (sum << 8) + i64::from(of[j]));
                                *y = scaled((sum - excess) as f32, *row, *scale);
                            }
                        }
                    }));
                });
            }
        }
    }
}
