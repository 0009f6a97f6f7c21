//! Rows of `x` as integers, and their products with a weight.

use super::weight::{Exact, Form};
use super::{Powers, integers_of, whole, whole_bits};
use crate::backend::cpu::simd::{
    Arch, DigitRows, ExactProduct, Pair, TILED, WordRows, digits_of, multiply_digits, multiply_words, scaled, words_of,
};

/// Rows of `x` as integers in float64, as digits or as words, and their scales.
#[derive(Default)]
pub(super) struct ExactRows {
    pub(super) q: Vec<f64>,
    pub(super) digits: Vec<i8>,
    pub(super) words: Vec<Pair>,
    /// Of digits, [`DigitRows::excess`] of each row.
    excess: Vec<i64>,
    scales: Vec<f64>,
    /// Of a row that becomes digits or words.
    integers: Vec<i32>,
}

impl Exact {
    /// The integers of rows of `x`, and their scales, in memory that is reused.
    pub(super) fn rows(&self, arch: Arch, x: &[f32], rows: &mut ExactRows) {
        let powers = Some(&self.powers).filter(|powers| !powers.shifts.is_empty());
        let (count, depth) = (x.len() / self.depth, self.depth);
        let ExactRows { q, digits, words, excess, scales, integers } = rows;
        scales.resize(count, 0.0);
        integers.resize(depth, 0);
        let each = x.chunks_exact(depth).zip(scales);
        match self.form {
            Form::Floats { .. } => {
                q.resize(count * depth, 0.0);
                let mut each = each.zip(q.chunks_exact_mut(depth));
                arch.vectorized(inlined!(|| for ((x, scale), q) in each.by_ref() {
                    *scale = super::scale(integers_for(powers, x, q, inlined!(|x| whole(x))));
                }));
            }
            Form::Digits { bytes, .. } => {
                digits.resize(count * 3 * bytes, 0);
                let mut each = each.zip(digits.chunks_exact_mut(3 * bytes));
                arch.vectorized(inlined!(|| for ((x, scale), digits) in each.by_ref() {
                    *scale = super::scale(integers_for(powers, x, integers, inlined!(|x| whole_bits(x))));
                    let (low, rest) = digits.split_at_mut(bytes);
                    let (middle, high) = rest.split_at_mut(bytes);
                    for (((low, middle), high), q) in
                        low.iter_mut().zip(middle.iter_mut()).zip(high.iter_mut()).zip(&*integers)
                    {
                        [*low, *middle, *high] = digits_of(*q);
                    }
                    [low, middle, high].into_iter().for_each(|digit| digit[depth..].fill(0));
                }));
                let of = DigitRows { digits, bytes };
                arch.vectorized(inlined!(|| {
                    excess.clear();
                    excess.extend((0..count).map(|row| of.excess(row)));
                }));
            }
            Form::Words { pairs, .. } => {
                words.resize(count * 3 * pairs, [0; 2]);
                let mut each = each.zip(words.chunks_exact_mut(3 * pairs));
                arch.vectorized(inlined!(|| for ((x, scale), words) in each.by_ref() {
                    *scale = super::scale(integers_for(powers, x, integers, inlined!(|x| whole_bits(x))));
                    let (high, rest) = words.as_flattened_mut().split_at_mut(2 * pairs);
                    let (low, both) = rest.split_at_mut(2 * pairs);
                    for (((high, low), both), q) in
                        high.iter_mut().zip(low.iter_mut()).zip(both.iter_mut()).zip(&*integers)
                    {
                        [*high, *low] = words_of(*q);
                        *both = *high + *low;
                    }
                    [high, low, both].into_iter().for_each(|word| word[depth..].fill(0));
                }));
            }
        }
    }

    /// Computes columns of `out [rows, columns]` from panel `first` on, of rows that are integers.
    pub(super) fn multiply(&self, arch: Arch, rows: &ExactRows, first: usize, out: (&mut [f32], usize)) {
        let column = first * self.width;
        // The columns of a panel of the result: the first of them, how many there are, and their factors.
        let of_panel = |number: usize, columns: usize| {
            let from = number * self.width;
            let count = self.width.min(columns - from);
            (from, count, &self.scales[column + from..][..count])
        };
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
                    let (from, count, own) = of_panel(number, columns);
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
            Form::Words { panels, unit, pairs } => {
                let (out, columns) = out;
                let panels = &panels[first * 2 * pairs..][..columns.div_ceil(self.width) * 2 * pairs];
                let words = WordRows { words: &rows.words, pairs: *pairs };
                multiply_words(*unit, &words, panels, |top, done, number, sums| {
                    let (from, count, own) = of_panel(number, columns);
                    arch.vectorized(inlined!(|| {
                        for ((i, sums), row) in (top..).zip(sums).zip(&rows.scales[top..]).skip(done) {
                            let y = &mut out[i * columns + from..][..count];
                            for ((y, sum), scale) in y.iter_mut().zip(&sums[..count]).zip(own) {
                                *y = scaled(*sum as f32, *row, *scale);
                            }
                        }
                    }));
                });
            }
        }
    }
}

/// The integers of a row, with a balance or without: a loop for each.
#[inline(always)]
fn integers_for<Q: Copy + Default>(powers: Option<&Powers>, x: &[f32], q: &mut [Q], of: impl Fn(f64) -> Q) -> i32 {
    match powers {
        None => integers_of(x, None, q, of),
        some => integers_of(x, some, q, of),
    }
}
