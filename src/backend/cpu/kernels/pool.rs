//! One vector per text from its tokens' vectors; tokens are added in order.

use std::ops::Range;

use crate::Result;
use crate::backend::cpu::simd::nan_max;
use crate::backend::cpu::step::Step;
use crate::ops::{Pool, PoolBackward, PoolMode};

pub(super) fn pool(step: &Step<'_>, op: &Pool, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let (offsets, skipped) = (step.indices(1)?, step.indices(2)?);
    let columns = step.shape(0).columns();
    step.rows(out, op.modes.len() * columns, 1).each(inlined!(|text, row| {
        let (start, end) = (offsets[text] as usize, offsets[text + 1] as usize);
        let tokens = &x[start * columns..end * columns];
        for (mode, y) in op.modes.iter().zip(row.chunks_exact_mut(columns)) {
            one(*mode, tokens, skipped[text] as usize, y);
        }
    }));
    Ok(())
}

/// One mode of one text; `tokens [n, columns]`, of which the first `skipped` are excluded.
#[inline(always)]
fn one(mode: PoolMode, tokens: &[f32], skipped: usize, y: &mut [f32]) {
    let columns = y.len();
    let rows = tokens.chunks_exact(columns);
    let pooled = rows.len().saturating_sub(skipped);
    let add = |y: &mut [f32], row: &[f32], factor: f32| {
        for (y, x) in y.iter_mut().zip(row) {
            *y += factor * x;
        }
    };
    let divide = |y: &mut [f32], divisor: f32| y.iter_mut().for_each(|y| *y /= divisor);
    y.fill(0.0);
    match mode {
        PoolMode::Cls => rows.skip(skipped).take(1).for_each(|row| y.copy_from_slice(row)),
        PoolMode::LastToken => rows.skip(skipped).last().into_iter().for_each(|row| y.copy_from_slice(row)),
        PoolMode::Max => {
            y.fill(f32::NEG_INFINITY);
            for row in rows.skip(skipped) {
                for (y, x) in y.iter_mut().zip(row) {
                    *y = nan_max(*y, *x);
                }
            }
        }
        PoolMode::Sum => rows.skip(skipped).for_each(|row| add(y, row, 1.0)),
        PoolMode::Mean | PoolMode::MeanSqrtLength => {
            rows.skip(skipped).for_each(|row| add(y, row, 1.0));
            let count = (pooled as f32).max(1e-9);
            divide(y, if mode == PoolMode::Mean { count } else { count.sqrt() });
        }
        PoolMode::WeightedMean => {
            let mut total = 0.0f32;
            for (i, row) in rows.enumerate().skip(skipped) {
                add(y, row, (i + 1) as f32);
                total += (i + 1) as f32;
            }
            divide(y, total.max(1e-9));
        }
    }
}

/// The gradient of every row: of its text's modes, in their order.
pub(super) fn pool_backward(step: &Step<'_>, PoolBackward(op): &PoolBackward, out: &mut [f32]) -> Result<()> {
    let (g, x) = (step.floats(0)?, step.floats(1)?);
    let (offsets, skipped) = (step.indices(2)?, step.indices(3)?);
    let columns = step.shape(1).columns();
    let wide = op.modes.len() * columns;
    step.team.rows(out, columns, 64, |first, part| {
        part.fill(0.0);
        let end = first + part.len() / columns;
        for (text, skipped) in skipped.iter().enumerate() {
            let (start, stop) = (offsets[text] as usize, offsets[text + 1] as usize);
            let pooled = (start + *skipped as usize).min(stop)..stop;
            if pooled.is_empty() || stop <= first || start >= end {
                continue;
            }
            for (place, mode) in op.modes.iter().enumerate() {
                let g = &g[text * wide + place * columns..][..columns];
                let own = pooled.start.max(first)..pooled.end.min(end);
                match mode {
                    PoolMode::Max => {
                        for (column, g) in g.iter().enumerate() {
                            let token = largest(x, columns, pooled.clone(), column);
                            if own.contains(&token) {
                                part[(token - first) * columns + column] += g;
                            }
                        }
                    }
                    mode => {
                        for token in own {
                            let weight = weight(*mode, token, start, &pooled);
                            let row = &mut part[(token - first) * columns..][..columns];
                            row.iter_mut().zip(g).for_each(|(y, g)| *y += weight * g);
                        }
                    }
                }
            }
        }
    });
    Ok(())
}

/// The first token of the largest value of a column; NaN is the largest.
fn largest(x: &[f32], columns: usize, mut pooled: Range<usize>, column: usize) -> usize {
    let value = |token: usize| x[token * columns + column];
    let mut best = pooled.start;
    for token in pooled.by_ref().skip(1) {
        if value(token) > value(best) || value(token).is_nan() && !value(best).is_nan() {
            best = token;
        }
    }
    best
}

/// The weight of a token of a text from `start` in a mode other than `Max`.
fn weight(mode: PoolMode, token: usize, start: usize, pooled: &Range<usize>) -> f32 {
    let number = pooled.len() as f32;
    match mode {
        PoolMode::Cls => f32::from(u8::from(token == pooled.start)),
        PoolMode::LastToken => f32::from(u8::from(token + 1 == pooled.end)),
        PoolMode::Mean => 1.0 / number,
        PoolMode::MeanSqrtLength => 1.0 / number.sqrt(),
        PoolMode::WeightedMean => {
            // The weights are consecutive numbers, so their sum is their mean times their count.
            let ends = (pooled.start - start + 1 + pooled.end - start) as f32;
            (token - start + 1) as f32 / (0.5 * number * ends)
        }
        PoolMode::Sum | PoolMode::Max => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::simd::Arch;
    use crate::backend::cpu::testing::{Operand, assert_close, numbers, run};
    use crate::ops::{Counts, Dim, Shape};
    use crate::text::packing;

    const ALL: [PoolMode; 7] = [
        PoolMode::Cls,
        PoolMode::Max,
        PoolMode::Mean,
        PoolMode::MeanSqrtLength,
        PoolMode::WeightedMean,
        PoolMode::LastToken,
        PoolMode::Sum,
    ];

    fn reference(mode: PoolMode, rows: &[&[f32]], skipped: usize, c: usize) -> f64 {
        let pooled = rows.get(skipped..).unwrap_or_default();
        let sum = || pooled.iter().map(|r| f64::from(r[c])).sum::<f64>();
        match mode {
            PoolMode::Cls => pooled.first().map_or(0.0, |r| f64::from(r[c])),
            PoolMode::Max => pooled.iter().map(|r| f64::from(r[c])).reduce(f64::max).unwrap_or(f64::NEG_INFINITY),
            PoolMode::Mean => sum() / (pooled.len() as f64).max(1e-9),
            PoolMode::MeanSqrtLength => sum() / (pooled.len() as f64).max(1e-9).sqrt(),
            PoolMode::WeightedMean => {
                let weights = (skipped..rows.len()).map(|i| (i + 1) as f64);
                let sum: f64 = weights.clone().zip(pooled).map(|(w, r)| w * f64::from(r[c])).sum();
                sum / weights.sum::<f64>().max(1e-9)
            }
            PoolMode::LastToken => pooled.last().map_or(0.0, |r| f64::from(r[c])),
            PoolMode::Sum => sum(),
        }
    }

    #[test]
    fn every_mode_and_their_concatenation() {
        let columns = 17;
        let lengths = [1usize, 5, 0, 33, 16, 2];
        let first = [0u32, 2, 0, 3, 16, 9];
        let offsets = packing::offsets(lengths.into_iter());
        let tokens = lengths.iter().sum();
        let x = numbers(tokens * columns, 1);
        let operands = [
            Operand::Floats(Shape::matrix(Dim::Tokens, columns), &x),
            Operand::Indices(Shape::vector(Dim::Boundaries), &offsets),
            Operand::Indices(Shape::vector(Dim::Texts), &first),
        ];
        let y = run(Pool { modes: ALL.to_vec() }, &operands, Counts::new(tokens, 6), Arch::new());
        let mut expected = Vec::new();
        for text in 0..6 {
            let rows: Vec<&[f32]> = x.chunks_exact(columns).collect();
            let rows = &rows[packing::rows(&offsets, text)];
            for mode in ALL {
                expected.extend((0..columns).map(|c| reference(mode, rows, first[text] as usize, c)));
            }
        }
        assert_close(&y, &expected, "pool", |i| f64::from(f32::EPSILON) * (40.0 + expected[i].abs()));
    }

    #[test]
    fn no_texts_and_nan() {
        let operands = |x, offsets, first| {
            [
                Operand::Floats(Shape::matrix(Dim::Tokens, 2), x),
                Operand::Indices(Shape::vector(Dim::Boundaries), offsets),
                Operand::Indices(Shape::vector(Dim::Texts), first),
            ]
        };
        let pool = Pool { modes: ALL.to_vec() };
        assert!(run(pool.clone(), &operands(&[], &[0], &[]), Counts::default(), Arch::new()).is_empty());
        let x = [1.0, f32::NAN, 2.0, 3.0];
        let y = run(pool, &operands(&x, &[0, 2], &[0]), Counts::new(2, 1), Arch::new());
        assert!(y[3].is_nan() && y[5].is_nan() && y[2] == 2.0 && y[4] == 1.5);
    }
}
