//! Sum, mean, maximum and deviation over one axis: every column of it, or of a chunk of it, is one sum in 64 chains.

use super::functions::{canonical, div, mul, settle};
use super::sum;
use crate::Result;
use crate::backend::cpu::simd::nan_max;
use crate::backend::cpu::step::Step;
use crate::ops::reduce::Stage;
use crate::ops::{Reduce, ReduceKind};

pub(super) fn reduce(step: &Step<'_>, op: &Reduce, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let weights = step.given(1).then(|| step.floats(1)).transpose()?;
    let [_, n, inner] = op.axes(step.shape(0));
    if let Stage::Join { n: all, weighted } = op.stage {
        let planes = op.planes(weighted);
        let (inner, size) = (inner / planes, n * inner);
        step.rows(out, inner, 64).each(inlined!(|row, y| {
            let (parts, mut columns) = (&x[row * size..][..size], [vec![0.0f32; n], vec![0.0f32; n]]);
            for (c, y) in y.iter_mut().enumerate() {
                for (plane, column) in columns.iter_mut().enumerate().take(planes) {
                    fill(column, &parts[plane * inner..], planes * inner, c);
                }
                let [value, second] = join(op.kind, weighted, all, &mut columns);
                *y = canonical(finish(op.kind, weighted, all, value, second));
            }
        }));
        return Ok(());
    }
    let whole = op.stage == Stage::Whole;
    let chunk = if whole { n } else { Reduce::chunk(n) };
    let chunks = if whole { 1 } else { n.div_ceil(chunk) };
    let planes = if whole { 1 } else { op.planes(weights.is_some()) };
    step.rows(out, planes * inner, (4096 / (chunk * inner).max(1)).max(1)).each(inlined!(|unit, y| {
        let first = unit % chunks * chunk;
        let (first, count) = (unit / chunks * n + first, chunk.min(n - first));
        let weights = weights.map(|weights| &weights[first..][..count]);
        let mut column = vec![0.0f32; count];
        for c in 0..inner {
            fill(&mut column, &x[first * inner..], inner, c);
            let [value, second] = part(op.kind, &mut column, weights);
            y[c] = canonical(if whole { finish(op.kind, weights.is_some(), n, value, second) } else { value });
            if planes > 1 {
                y[inner + c] = canonical(second);
            }
        }
    }));
    Ok(())
}

/// A column of rows of so many numbers, settled.
#[inline(always)]
fn fill(column: &mut [f32], rows: &[f32], width: usize, c: usize) {
    let values = rows.get(c..).unwrap_or_default().iter().step_by(width);
    column.iter_mut().zip(values).for_each(|(own, x)| *own = settle(*x));
}

#[inline(always)]
fn plain([x]: [f32; 1]) -> f32 {
    x
}

/// Of settled numbers the sum, the largest or the squared deviations; then the sum of weights, whether any is positive, or the
/// mean.
#[inline(always)]
fn part(kind: ReduceKind, x: &mut [f32], weights: Option<&[f32]>) -> [f32; 2] {
    if kind == ReduceKind::Max {
        let seen = |k: &usize| weights.is_none_or(|weights| settle(weights[*k]) > 0.0);
        let most = (0..x.len()).filter(seen).map(|k| x[k]).fold(f32::NEG_INFINITY, nan_max);
        return [most, f32::from((0..x.len()).any(|k| seen(&k)))];
    }
    let total = match weights {
        None => sum([&*x], plain),
        Some(weights) => sum([&*x, weights], inlined!(|[x, w]| mul(settle(w), x))),
    };
    match kind {
        ReduceKind::Deviation => {
            let mean = div(total, x.len() as f32);
            x.iter_mut().for_each(|x| *x -= mean);
            [sum([&*x], inlined!(|[d]| mul(d, d))), mean]
        }
        _ => [total, weights.map_or(0.0, |weights| sum([weights], inlined!(|[w]| settle(w))))],
    }
}

/// The same of the whole from those of its chunks.
#[inline(always)]
fn join(kind: ReduceKind, weighted: bool, n: usize, [values, seconds]: &mut [Vec<f32>; 2]) -> [f32; 2] {
    let most = |of: &[f32]| of.iter().copied().fold(f32::NEG_INFINITY, nan_max);
    match kind {
        ReduceKind::Max => [most(&values[..]), if weighted { most(&seconds[..]) } else { 0.0 }],
        ReduceKind::Deviation => {
            let size = Reduce::chunk(n);
            let counts: Vec<f32> = (0..values.len()).map(|k| size.min(n - k * size) as f32).collect();
            let mean = div(sum([&counts[..], &seconds[..]], inlined!(|[count, mean]| mul(count, mean))), n as f32);
            seconds.iter_mut().for_each(|own| *own -= mean);
            let term = inlined!(|[squares, count, d]: [f32; 3]| squares + mul(count, mul(d, d)));
            [sum([&values[..], &counts[..], &seconds[..]], term), mean]
        }
        ReduceKind::Sum | ReduceKind::Mean => {
            [sum([&values[..]], plain), if weighted { sum([&seconds[..]], plain) } else { 0.0 }]
        }
    }
}

/// The result.
#[inline(always)]
fn finish(kind: ReduceKind, weighted: bool, n: usize, value: f32, second: f32) -> f32 {
    match kind {
        ReduceKind::Sum => value,
        ReduceKind::Mean if weighted => div(value, if second < 1e-9 { 1e-9 } else { second }),
        ReduceKind::Mean => div(value, n as f32),
        ReduceKind::Max if weighted => {
            if second > 0.0 {
                value
            } else {
                0.0
            }
        }
        ReduceKind::Max => value,
        ReduceKind::Deviation => div(value, n as f32).sqrt(),
    }
}
