//! Sums over the rows next to each token's, within its text.

use std::ops::Range;

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::{Dim, TokenConvolution};

pub(super) fn token_convolution(step: &Step<'_>, op: &TokenConvolution, out: &mut [f32]) -> Result<()> {
    add(step, op, out, inlined!(|y, weight, x| y + weight * x))
}

/// Adds up the rows of each text by `term(sum, weight, x)`.
#[inline(always)]
pub(super) fn add(
    step: &Step<'_>,
    op: &TokenConvolution,
    out: &mut [f32],
    term: impl Fn(f32, f32, f32) -> f32 + Copy + Sync,
) -> Result<()> {
    let (x, weight, offsets) = (step.floats(0)?, step.floats(1)?, step.indices(2)?);
    let (columns, [heads, taps]) = (step.shape(0).columns(), TokenConvolution::sizes(step.shape(1)));
    // None where all rows have the same weights.
    let apart = if step.shape(1).rows() == Dim::Fixed(1) { 0 } else { heads * taps };
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        let text = offsets.partition_point(|first| *first as usize <= row) - 1;
        let weight = &weight[row * apart..][..heads * taps];
        y.fill(0.0);
        for tap in seen(op.before, taps, row, offsets[text] as usize..offsets[text + 1] as usize) {
            let x = &x[(row + tap - op.before) * columns..][..columns];
            let blocks = y.chunks_exact_mut(columns / heads).zip(x.chunks_exact(columns / heads));
            for ((y, x), weight) in blocks.zip(weight[tap..].iter().step_by(taps)) {
                y.iter_mut().zip(x).for_each(|(y, x)| *y = term(*y, *weight, *x));
            }
        }
    }));
    Ok(())
}

/// The weights of a row that meet rows of its text.
#[inline(always)]
fn seen(before: usize, taps: usize, row: usize, text: Range<usize>) -> Range<usize> {
    (text.start + before).saturating_sub(row)..taps.min(text.end + before - row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::simd::Arch;
    use crate::backend::cpu::testing::{Operand, numbers, run};
    use crate::ops::{Counts, Shape};
    use crate::text::packing;

    #[test]
    fn rows_are_added_in_order_within_their_text() {
        let (columns, taps) = (12, 5);
        for lengths in [&[][..], &[1], &[3, 0, 4, 1, 40, 0]] {
            let (tokens, texts) = (lengths.iter().sum(), lengths.len());
            let offsets = packing::offsets(lengths.iter().copied());
            let x = numbers(tokens * columns, 1);
            for (heads, rows) in [(1, tokens), (4, tokens), (12, 1)] {
                let weight = numbers(rows * heads * taps, 2);
                let first = if rows == 1 { Dim::Fixed(1) } else { Dim::Tokens };
                let operands = [
                    Operand::Floats(Shape::matrix(Dim::Tokens, columns), &x),
                    Operand::Floats(Shape(vec![first, Dim::Fixed(heads), Dim::Fixed(taps)]), &weight),
                    Operand::Indices(Shape::vector(Dim::Boundaries), &offsets),
                ];
                for before in [0, 2, 4] {
                    let y = run(TokenConvolution { before }, &operands, Counts::new(tokens, texts), Arch::new());
                    for (at, y) in y.iter().enumerate() {
                        let (t, c) = (at / columns, at % columns);
                        let text =
                            (0..texts).map(|text| packing::rows(&offsets, text)).find(|own| own.contains(&t)).unwrap();
                        let own = |tap: &usize| t + tap >= before && text.contains(&(t + tap - before));
                        let place = if rows == 1 { 0 } else { t } * heads + c * heads / columns;
                        let term = |tap| weight[place * taps + tap] * x[(t + tap - before) * columns + c];
                        assert_eq!(*y, (0..taps).filter(own).map(term).fold(0.0, |sum, term| sum + term));
                    }
                }
            }
        }
    }
}
