//! Sum, mean, maximum and deviation over one axis, in one pass or in chunks.

use std::ops::Range;

use crate::Result;
use crate::backend::cpu::simd::{largest, nan_max, sum_by};
use crate::backend::cpu::step::Step;
use crate::ops::reduce::Stage;
use crate::ops::{Reduce, ReduceKind};

/// Number of rows that are summed in order before their sum is added to the total.
const BLOCK: usize = 32;

/// One index of the axes before `axis`.
struct Part<'a> {
    /// `[n, inner]`
    x: &'a [f32],
    /// `[n]`
    weights: Option<&'a [f32]>,
    inner: usize,
}

impl Part<'_> {
    fn row(&self, k: usize) -> &[f32] {
        &self.x[k * self.inner..][..self.inner]
    }

    /// `y[c] = sum_k f(weights[k], c, x[k, c])`, with ones in place of omitted weights.
    #[inline(always)]
    fn sum(&self, rows: Range<usize>, y: &mut [f32], f: impl Fn(f32, usize, f32) -> f32) {
        if self.inner == 1 {
            let x = &self.x[rows.clone()];
            y[0] = match self.weights {
                None => sum_by([x], |[x]| f(1.0, 0, x)),
                Some(weights) => sum_by([x, &weights[rows]], |[x, w]| f(w, 0, x)),
            };
            return;
        }
        let mut block = vec![0.0f32; self.inner];
        y.fill(0.0);
        for start in rows.clone().step_by(BLOCK) {
            block.fill(0.0);
            for k in start..rows.end.min(start + BLOCK) {
                let weight = self.weights.map_or(1.0, |weights| weights[k]);
                for (c, (sum, x)) in block.iter_mut().zip(self.row(k)).enumerate() {
                    *sum += f(weight, c, *x);
                }
            }
            for (y, sum) in y.iter_mut().zip(&block) {
                *y += sum;
            }
        }
    }

    /// The planes of a chunk, `[planes, inner]`.
    #[inline(always)]
    fn planes(&self, kind: ReduceKind, rows: Range<usize>, out: &mut [f32]) {
        let (y, second) = out.split_at_mut(self.inner);
        match kind {
            ReduceKind::Deviation => {
                let n = rows.len() as f32;
                self.sum(rows.clone(), second, |_, _, x| x);
                second.iter_mut().for_each(|sum| *sum /= n);
                self.sum(rows, y, |_, c, x| (x - second[c]) * (x - second[c]));
            }
            ReduceKind::Max if self.weights.is_none() && self.inner == 1 => y[0] = largest(&self.x[rows]),
            ReduceKind::Max => {
                y.fill(f32::NEG_INFINITY);
                second.fill(0.0);
                for k in rows.filter(|k| self.weights.is_none_or(|weights| weights[*k] > 0.0)) {
                    second.fill(1.0);
                    for (y, x) in y.iter_mut().zip(self.row(k)) {
                        *y = nan_max(*y, *x);
                    }
                }
            }
            ReduceKind::Sum | ReduceKind::Mean => match self.weights {
                None => self.sum(rows, y, |_, _, x| x),
                Some(weights) => {
                    self.sum(rows.clone(), y, |weight, _, x| weight * x);
                    second.fill(sum_by([&weights[rows]], |[w]| w));
                }
            },
        }
    }
}

/// The result from its planes.
fn finish(kind: ReduceKind, weighted: bool, n: usize, value: f32, second: f32) -> f32 {
    match kind {
        ReduceKind::Sum => value,
        ReduceKind::Mean if weighted => value / nan_max(second, 1e-9),
        ReduceKind::Mean => value / n as f32,
        ReduceKind::Max if weighted && second == 0.0 => 0.0,
        ReduceKind::Max => value,
        ReduceKind::Deviation => (value / n as f32).sqrt(),
    }
}

/// Combines parts `[chunks, planes, inner]` of one index of the preceding axes into the planes of the whole at column
/// `c`.
fn join(op: &Reduce, parts: &[f32], planes: usize, inner: usize, n: usize, c: usize) -> (f32, f32) {
    let chunks = || (0..parts.len() / (planes * inner)).map(|k| &parts[k * planes * inner..][..planes * inner]);
    let second = |chunk: &[f32]| if planes > 1 { chunk[inner + c] } else { 0.0 };
    match op.kind {
        ReduceKind::Max => {
            chunks().fold((f32::NEG_INFINITY, 0.0), |(a, b), chunk| (nan_max(a, chunk[c]), f32::max(b, second(chunk))))
        }
        ReduceKind::Deviation => {
            let size = Reduce::chunk(n);
            let count = |k: usize| size.min(n - k * size) as f64;
            let mean = chunks().enumerate().map(|(k, p)| count(k) * f64::from(second(p))).sum::<f64>() / n as f64;
            let squares = chunks().enumerate().map(|(k, p)| {
                let distance = f64::from(second(p)) - mean;
                f64::from(p[c]) + count(k) * (distance * distance)
            });
            (squares.sum::<f64>() as f32, mean as f32)
        }
        _ => {
            let sum = |f: &dyn Fn(&[f32]) -> f32| chunks().map(|chunk| f64::from(f(chunk))).sum::<f64>() as f32;
            (sum(&|chunk| chunk[c]), sum(&second))
        }
    }
}

pub(super) fn reduce(step: &Step<'_>, op: &Reduce, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let weights = step.given(1).then(|| step.floats(1)).transpose()?;
    let [_, n, inner] = op.axes(step.shape(0));
    if let Stage::Join { n: all, weighted } = op.stage {
        let planes = op.planes(weighted);
        let inner = inner / planes;
        let size = n * planes * inner;
        step.rows(out, inner, 64).each(inlined!(|row, y| {
            for (c, y) in y.iter_mut().enumerate() {
                let (value, second) = join(op, &x[row * size..][..size], planes, inner, all, c);
                *y = finish(op.kind, weighted, all, value, second);
            }
        }));
        return Ok(());
    }
    let whole = op.stage == Stage::Whole;
    let chunk = if whole { n } else { Reduce::chunk(n) };
    let chunks = if whole { 1 } else { n.div_ceil(chunk) };
    let planes = op.planes(weights.is_some());
    let width = if whole { inner } else { planes * inner };
    step.rows(out, width, (4096 / (chunk * inner).max(1)).max(1)).vectorized(inlined!(|first, part| {
        let mut both = vec![0.0f32; 2 * inner];
        for (unit, y) in (first..).zip(part.chunks_exact_mut(width)) {
            let o = unit / chunks;
            let rows = unit % chunks * chunk..n.min((unit % chunks + 1) * chunk);
            let given = Part {
                x: &x[o * n * inner..][..n * inner],
                weights: weights.map(|weights| &weights[o * n..][..n]),
                inner,
            };
            given.planes(op.kind, rows, &mut both);
            if !whole {
                y.copy_from_slice(&both[..width]);
                continue;
            }
            let (values, seconds) = both.split_at(inner);
            for ((y, value), second) in y.iter_mut().zip(values).zip(seconds) {
                *y = finish(op.kind, weights.is_some(), n, *value, *second);
            }
        }
    }));
    Ok(())
}
