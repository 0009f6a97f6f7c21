//! One vector per text from its tokens' vectors, which are added in order.

use super::functions::{canonical, div, mul, settle};
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::{Pool, PoolMode};

pub(super) fn pool(step: &Step<'_>, op: &Pool, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let (offsets, skipped) = (step.indices(1)?, step.indices(2)?);
    let columns = step.shape(0).columns();
    step.rows(out, op.modes.len() * columns, 1).each(inlined!(|text, row| {
        let (start, end) = (offsets[text] as usize, offsets[text + 1] as usize);
        let tokens = &x[start * columns..end * columns];
        for (mode, y) in op.modes.iter().zip(row.chunks_exact_mut(columns)) {
            one(*mode, tokens, skipped[text] as usize, y);
            y.iter_mut().for_each(|y| *y = canonical(*y));
        }
    }));
    Ok(())
}

/// `y = f(y, x)` of settled numbers.
#[inline(always)]
fn meet(y: &mut [f32], row: &[f32], f: impl Fn(f32, f32) -> f32) {
    y.iter_mut().zip(row).for_each(|(y, x)| *y = f(*y, settle(*x)));
}

/// One mode of one text; `tokens [n, columns]`, of which the first `skipped` are excluded.
#[inline(always)]
fn one(mode: PoolMode, tokens: &[f32], skipped: usize, y: &mut [f32]) {
    let rows = tokens.chunks_exact(y.len());
    let pooled = rows.len().saturating_sub(skipped);
    let divide = inlined!(|y: &mut [f32], divisor: f32| y.iter_mut().for_each(|y| *y = div(settle(*y), divisor)));
    y.fill(0.0);
    match mode {
        PoolMode::Cls => rows.skip(skipped).take(1).for_each(|row| meet(y, row, |_, x| x)),
        PoolMode::LastToken => rows.skip(skipped).last().into_iter().for_each(|row| meet(y, row, |_, x| x)),
        PoolMode::Max => {
            y.fill(f32::NEG_INFINITY);
            // NaN is preserved.
            rows.skip(skipped).for_each(|row| meet(y, row, |y, x| if x > y || x.is_nan() { x } else { y }));
        }
        PoolMode::Sum => rows.skip(skipped).for_each(|row| meet(y, row, |y, x| y + x)),
        PoolMode::Mean | PoolMode::MeanSqrtLength => {
            rows.skip(skipped).for_each(|row| meet(y, row, |y, x| y + x));
            let count = if pooled == 0 { 1e-9 } else { pooled as f32 };
            divide(y, if mode == PoolMode::Mean { count } else { count.sqrt() });
        }
        PoolMode::WeightedMean => {
            let mut total = 0u64;
            for (i, row) in rows.enumerate().skip(skipped) {
                meet(y, row, |y, x| y + mul((i + 1) as f32, x));
                total += i as u64 + 1;
            }
            divide(y, if total == 0 { 1e-9 } else { total as f32 });
        }
    }
}
