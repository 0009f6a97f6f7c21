//! From scores to weights: soft cap, biases, hidden keys, exponentials and their sums.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::Text;
use crate::backend::cpu::simd;

/// `row = exp(cap(row) + bias - max)` over the keys visible to a row's query, zeros at the others; `factor = 1 / sum`, 0
/// for a query without visible keys.
pub(in crate::backend::cpu::kernels) struct Weights<'a> {
    pub(in crate::backend::cpu::kernels) text: Text<'a>,
    /// Query of the first row.
    pub(in crate::backend::cpu::kernels) first: usize,
    /// By distance; empty for none.
    pub(in crate::backend::cpu::kernels) biases: &'a [f32],
    /// Columns in use: both ranges begin at a whole vector and end with one.
    pub(in crate::backend::cpu::kernels) parts: [Range<usize>; 2],
    /// One row per query, one column per key of the text.
    pub(in crate::backend::cpu::kernels) scores: &'a mut [f32],
    /// One per row.
    pub(in crate::backend::cpu::kernels) factors: &'a mut [f32],
}

impl WithSimd for Weights<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Text { op, length, keys, reach, .. } = self.text;
        for (i, (row, factor)) in self.scores.chunks_exact_mut(keys.padded).zip(self.factors).enumerate() {
            let place = self.text.place(self.first + i);
            let sight = op.sight(place, length);
            if sight.is_empty() {
                self.parts.iter().for_each(|part| row[part.clone()].fill(0.0));
                *factor = 0.0;
                continue;
            }
            let mut most = simd.splat_f32s(f32::NEG_INFINITY);
            for part in self.parts.iter().filter(|part| !part.is_empty()) {
                if op.soft_cap > 0.0 {
                    let cap = simd.splat_f32s(op.soft_cap);
                    for x in S::as_mut_simd_f32s(&mut row[part.clone()]).0 {
                        *x = simd.mul_f32s(simd::tanh(simd, simd.div_f32s(*x, cap)), cap);
                    }
                }
                if !self.biases.is_empty() {
                    add_biases(&mut row[part.clone()], part.start as i64 - place, self.biases, reach as i64);
                }
                for hidden in self.text.hidden(self.first + i, part.end) {
                    let (from, to) = (hidden.start.max(part.start), hidden.end.min(part.end));
                    row[from.min(to)..to].fill(f32::NEG_INFINITY);
                }
                for x in S::as_simd_f32s(&row[part.clone()]).0 {
                    most = simd.max_f32s(most, *x);
                }
            }
            // A NaN that the maximum dropped is still among the scores, and makes the sum NaN.
            let most = simd.splat_f32s(simd.reduce_max_f32s(most));
            let mut sum = simd.splat_f32s(0.0);
            for part in &self.parts {
                for x in S::as_mut_simd_f32s(&mut row[part.clone()]).0 {
                    *x = simd::exp_falling(simd, simd.sub_f32s(*x, most));
                    sum = simd.add_f32s(sum, *x);
                }
            }
            *factor = 1.0 / simd.reduce_sum_f32s(sum);
        }
    }
}

/// Adds the biases of the distances from `from` on; beyond `reach`, the bias of `reach`.
#[inline(always)]
pub(in crate::backend::cpu::kernels) fn add_biases(row: &mut [f32], from: i64, biases: &[f32], reach: i64) {
    let within = |distance: i64| (distance - from).clamp(0, row.len() as i64) as usize;
    let (middle, after) = (within(-reach), within(reach + 1));
    let [first, .., last] = biases else {
        row.iter_mut().for_each(|x| *x += biases[0]);
        return;
    };
    row[..middle].iter_mut().for_each(|x| *x += first);
    row[after..].iter_mut().for_each(|x| *x += last);
    let skipped = (from + middle as i64 + reach).max(0) as usize;
    for (x, bias) in row[middle..after].iter_mut().zip(biases.get(skipped..).unwrap_or(&[])) {
        *x += bias;
    }
}
