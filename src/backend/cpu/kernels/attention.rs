//! Attention of packed texts, one text and head at a time, all of it in the nearest caches.
//!
//! ```text
//! pack:    K^T in panels [key panel][head_dim][width],  V in panels [column panel][L][width]
//! attend:  a few queries at a time: scores = scale Q K^T, e = exp(scores - max), y = (e V) / sum e
//! ```
//! A row of scores is whole (no rescaling), and its sums over keys start at the text's first key: neighbours in the
//! batch, the number of queries done at once and the number of threads change no bit.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::backend::cpu::floats::Floats;
use crate::backend::cpu::simd::{self, Arch, Finish, PANEL_VECTORS, Product, Scale};
use crate::backend::cpu::step::Step;
use crate::backend::cpu::threads::Team;
use crate::graph::ValueId;
use crate::ops::Attention;
use crate::{Error, Result};

/// Scores held at once, in floats: a third of a first-level cache.
const SCORES: usize = 4096;

/// One operand: rows of tokens, of which a head has some columns.
#[derive(Clone, Copy)]
struct Operand<'a> {
    values: &'a [f32],
    stride: usize,
    column: usize,
}

impl<'a> Operand<'a> {
    fn new(step: &Step<'a>, id: ValueId, column: usize) -> Result<Self> {
        Ok(Operand { values: step.floats(id)?, stride: step.shape(id).columns(), column })
    }

    /// From the first element of a head in row `row` on.
    #[inline(always)]
    fn head(&self, row: usize, head: usize, head_dim: usize) -> &'a [f32] {
        &self.values[row * self.stride + self.column + head * head_dim..]
    }
}

/// Vectors that cover `columns`, dealt out evenly to panels.
#[derive(Clone, Copy)]
struct Panels {
    vectors: usize,
    width: usize,
    padded: usize,
}

impl Panels {
    fn new(columns: usize, lanes: usize) -> Self {
        let vectors = columns.div_ceil(lanes).max(1);
        let panels = vectors.div_ceil(PANEL_VECTORS);
        let vectors = vectors.div_ceil(panels);
        Panels { vectors, width: vectors * lanes, padded: panels * vectors * lanes }
    }
}

/// One text.
#[derive(Clone, Copy)]
struct Text<'a> {
    op: &'a Attention,
    q: Operand<'a>,
    k: Operand<'a>,
    v: Operand<'a>,
    /// First token.
    start: usize,
    /// Tokens.
    length: usize,
    /// Of the scores' columns, one a key.
    keys: Panels,
    /// Of a head's columns.
    columns: Panels,
}

impl Text<'_> {
    /// Floats of one head's keys, then of its values.
    fn packed(&self) -> (usize, usize) {
        (self.op.head_dim * self.keys.padded, self.length * self.columns.padded)
    }

    fn query_rows(&self) -> usize {
        (SCORES / self.keys.padded).clamp(8, 64) / 8 * 8
    }

    /// Floats [`Attend`] needs besides: scores and one factor a row.
    fn working(&self) -> usize {
        self.query_rows() * (self.keys.padded + 1)
    }

    fn pack(&self, head: usize, packed: &mut [f32]) {
        let (keys, values) = packed.split_at_mut(self.packed().0);
        let dim = self.op.head_dim;
        let width = self.keys.width;
        for (panel, first) in keys.chunks_exact_mut(dim * width).zip((0..self.length).step_by(width)) {
            let count = width.min(self.length - first);
            for j in 0..count {
                let key = &self.k.head(self.start + first + j, head, dim)[..dim];
                for (line, x) in panel.chunks_exact_mut(width).zip(key) {
                    line[j] = *x;
                }
            }
        }
        let width = self.columns.width;
        for (panel, first) in values.chunks_exact_mut(self.length * width).zip((0..dim).step_by(width)) {
            let count = width.min(dim - first);
            for (j, line) in panel.chunks_exact_mut(width).enumerate() {
                line[..count].copy_from_slice(&self.v.head(self.start + j, head, dim)[first..first + count]);
            }
        }
    }
}

/// Some queries of one text against one key-value head.
struct Attend<'a> {
    text: Text<'a>,
    /// Query heads.
    heads: Range<usize>,
    /// Queries, from the text's first token.
    queries: Range<usize>,
    packed: &'a [f32],
    working: &'a mut [f32],
    /// `[queries, heads * head_dim]`, all heads.
    out: &'a mut [f32],
}

impl WithSimd for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Text { op, keys, columns, length, .. } = self.text;
        let (dim, stride) = (op.head_dim, op.heads * op.head_dim);
        let (packed_keys, packed_values) = self.packed.split_at(self.text.packed().0);
        let most = self.text.query_rows();
        let (scores, factors) = self.working.split_at_mut(most * keys.padded);
        let blocks = self.queries.len().div_ceil(most);
        for head in self.heads.clone() {
            for block in 0..blocks {
                let (from, to) = (self.queries.len() * block / blocks, self.queries.len() * (block + 1) / blocks);
                let rows = to - from;
                Product {
                    a: self.text.q.head(self.text.start + self.queries.start + from, head, dim),
                    a_stride: self.text.q.stride,
                    rows,
                    depth: dim,
                    panels: packed_keys,
                    vectors: keys.vectors,
                    columns: keys.padded,
                    scale: Scale::All(op.scale),
                    bias: &[],
                    finish: Finish::default(),
                    out: scores,
                    out_stride: keys.padded,
                }
                .run(simd);
                for (row, factor) in scores.chunks_exact_mut(keys.padded).zip(factors.iter_mut()).take(rows) {
                    *factor = 1.0 / exponentials(simd, row, length);
                }
                Product {
                    a: scores,
                    a_stride: keys.padded,
                    rows,
                    depth: length,
                    panels: packed_values,
                    vectors: columns.vectors,
                    columns: dim,
                    scale: Scale::Rows(factors),
                    bias: &[],
                    finish: Finish::default(),
                    out: &mut self.out[from * stride + head * dim..],
                    out_stride: stride,
                }
                .run(simd);
            }
        }
    }
}

/// `row = exp(row - max)` over the first `length` scores, zeros after them; returns the sum.
#[inline(always)]
fn exponentials<S: Simd>(simd: S, row: &mut [f32], length: usize) -> f32 {
    row[length..].fill(f32::NEG_INFINITY);
    let (vectors, _) = S::as_mut_simd_f32s(row);
    let mut most = simd.splat_f32s(f32::NEG_INFINITY);
    for x in vectors.iter() {
        most = simd.max_f32s(most, *x);
    }
    // A NaN that the maximum drops is still among the scores, and makes the sum NaN.
    let most = simd.splat_f32s(simd.reduce_max_f32s(most));
    let mut sum = simd.splat_f32s(0.0);
    for x in vectors {
        *x = simd::exp(simd, simd.sub_f32s(*x, most));
        sum = simd.add_f32s(sum, *x);
    }
    simd.reduce_sum_f32s(sum)
}

pub(super) fn run(
    step: &Step<'_>,
    op: &Attention,
    operands: &[ValueId],
    scratch: &mut Floats,
    out: &mut [f32],
) -> Result<()> {
    let q = Operand::new(step, operands[0], op.q_column)?;
    let k = Operand::new(step, operands[1], op.k_column)?;
    let v = Operand::new(step, operands[2], op.v_column)?;
    let offsets = step.indices(operands[3])?;
    let (lanes, stride) = (simd::lanes(step.arch), op.heads * op.head_dim);
    if stride == 0 {
        return Ok(());
    }
    if offsets.last().is_some_and(|end| *end as usize != step.counts.tokens) {
        return Err(Error::InvalidArgument("attention: offsets do not end at the number of tokens".into()));
    }
    let mut rest = out;
    for pair in offsets.windows(2) {
        let (start, length) = (pair[0] as usize, (pair[1] - pair[0]) as usize);
        let (own, after) = rest.split_at_mut(length * stride);
        rest = after;
        if length == 0 {
            continue;
        }
        let (keys, columns) = (Panels::new(length, lanes), Panels::new(op.head_dim, lanes));
        let text = Text { op, q, k, v, start, length, keys, columns };
        match step.team {
            Team::Alone => alone(step.arch, text, scratch, own)?,
            Team::All(threads) => together(step.arch, threads, text, scratch, own)?,
        }
    }
    Ok(())
}

/// Head after head: one head's keys and values at a time.
fn alone(arch: Arch, text: Text<'_>, scratch: &mut Floats, out: &mut [f32]) -> Result<()> {
    let (keys, values) = text.packed();
    scratch.resize(keys + values + text.working(), "attention")?;
    let (packed, working) = scratch.split_at_mut(keys + values);
    let group = text.op.heads / text.op.kv_heads;
    for head in 0..text.op.kv_heads {
        text.pack(head, packed);
        arch.dispatch(Attend {
            text,
            heads: head * group..(head + 1) * group,
            queries: 0..text.length,
            packed,
            working,
            out,
        });
    }
    Ok(())
}

/// All heads packed at once, then the queries shared out.
fn together(arch: Arch, threads: usize, text: Text<'_>, scratch: &mut Floats, out: &mut [f32]) -> Result<()> {
    let (keys, values) = text.packed();
    let (one, group, stride) = (keys + values, text.op.heads / text.op.kv_heads, text.op.heads * text.op.head_dim);
    scratch.resize(one * text.op.kv_heads, "attention")?;
    scratch.par_chunks_mut(one).enumerate().for_each(|(head, packed)| text.pack(head, packed));
    let rows = text.length.div_ceil(threads).min(text.query_rows()).max(1);
    out.par_chunks_mut(rows * stride).enumerate().for_each_init(
        || vec![0.0f32; text.working()],
        |working, (i, out)| {
            let queries = i * rows..i * rows + out.len() / stride;
            for (head, packed) in scratch.chunks_exact(one).enumerate() {
                let heads = head * group..(head + 1) * group;
                arch.dispatch(Attend { text, heads, queries: queries.clone(), packed, working, out });
            }
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::{Operand as Given, archs, assert_close, numbers, run as run_op, same_bits};
    use crate::ops::{Counts, Dim, Shape};
    use crate::text::packing;

    fn op(heads: usize, kv_heads: usize, head_dim: usize) -> Attention {
        let (q, k) = (heads * head_dim, kv_heads * head_dim);
        let scale = 1.0 / (head_dim as f32).sqrt();
        Attention { heads, kv_heads, head_dim, scale, q_column: 1, k_column: 1 + q, v_column: 1 + q + k }
    }

    /// Queries, keys and values side by side, after one column that belongs to nobody.
    fn width(op: &Attention) -> usize {
        op.v_column + op.kv_heads * op.head_dim
    }

    fn attention(op: &Attention, x: &[f32], lengths: &[usize], arch: Arch) -> Vec<f32> {
        let offsets = packing::offsets(lengths.iter().copied());
        let shape = Shape::matrix(Dim::Tokens, width(op));
        let operands = [
            Given::Floats(shape.clone(), x),
            Given::Floats(shape.clone(), x),
            Given::Floats(shape, x),
            Given::Indices(Shape::vector(Dim::Boundaries), &offsets),
        ];
        run_op(op.clone(), &operands, Counts { tokens: lengths.iter().sum(), texts: lengths.len() }, arch)
    }

    fn reference(op: &Attention, x: &[f32], lengths: &[usize]) -> Vec<f64> {
        let (width, dim) = (width(op), op.head_dim);
        let mut y = Vec::new();
        let mut start = 0;
        for length in lengths {
            let at = |t: usize, c: usize| f64::from(x[(start + t) * width + c]);
            for i in 0..*length {
                for h in 0..op.heads {
                    let kv = h * op.kv_heads / op.heads;
                    let scores: Vec<f64> = (0..*length)
                        .map(|j| {
                            let dot: f64 = (0..dim)
                                .map(|d| at(i, op.q_column + h * dim + d) * at(j, op.k_column + kv * dim + d))
                                .sum();
                            dot * f64::from(op.scale)
                        })
                        .collect();
                    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let total: f64 = scores.iter().map(|s| (s - most).exp()).sum();
                    for d in 0..dim {
                        let sum: f64 = scores
                            .iter()
                            .enumerate()
                            .map(|(j, s)| (s - most).exp() * at(j, op.v_column + kv * dim + d))
                            .sum();
                        y.push(sum / total);
                    }
                }
            }
            start += length;
        }
        y
    }

    #[test]
    fn texts_and_heads_around_the_tiles_match_float64() {
        let lengths = [1, 2, 0, 7, 8, 15, 16, 17, 31, 33, 47, 48, 49];
        for arch in archs() {
            for (heads, kv_heads, dim) in
                [(1, 1, 1), (2, 2, 32), (3, 1, 5), (4, 2, 17), (2, 1, 64), (1, 1, 80), (2, 2, 128)]
            {
                let op = op(heads, kv_heads, dim);
                let x = numbers(lengths.iter().sum::<usize>() * width(&op), dim as u64);
                // Scores of size 4 sqrt(dim) scale, rounded sqrt(dim) times, pass through exp into a mean of values below 3.
                let tolerance = f64::from(f32::EPSILON) * 3.0 * (4.0 * (dim as f64).sqrt() + 12.0);
                assert_close(
                    &attention(&op, &x, &lengths, arch),
                    &reference(&op, &x, &lengths),
                    &format!("{op:?} {arch:?}"),
                    |_| tolerance,
                );
            }
        }
    }

    #[test]
    fn long_texts_and_large_scores() {
        let op = op(2, 2, 32);
        for arch in archs() {
            let mut x = numbers(450 * width(&op), 3);
            assert_close(&attention(&op, &x, &[450], arch), &reference(&op, &x, &[450]), "long", |_| 2e-5);
            x.truncate(40 * width(&op));
            for x in x.iter_mut() {
                *x *= 30.0;
            }
            // Scores in the thousands: their rounding alone is about 1e-4.
            assert_close(&attention(&op, &x, &[40], arch), &reference(&op, &x, &[40]), "large", |_| 0.1);
        }
    }

    #[test]
    fn a_text_has_the_same_bits_alone_and_among_others() {
        let op = op(3, 3, 32);
        for arch in archs() {
            let lengths = [30, 5, 100, 1, 64];
            let tokens: usize = lengths.iter().sum();
            let x = numbers(tokens * width(&op), 4);
            let all = attention(&op, &x, &lengths, arch);
            let mut start = 0;
            for length in lengths {
                let alone = attention(&op, &x[start * width(&op)..(start + length) * width(&op)], &[length], arch);
                assert!(same_bits(&alone, &all[start * 96..(start + length) * 96]), "{length} tokens {arch:?}");
                start += length;
            }
        }
    }

    #[test]
    fn nan_and_infinity_reach_their_text_only() {
        let op = op(1, 1, 16);
        for arch in archs() {
            let mut x = numbers(30 * width(&op), 5);
            let clean = attention(&op, &x, &[10, 10, 10], arch);
            x[12 * width(&op) + op.k_column] = f32::NAN;
            let y = attention(&op, &x, &[10, 10, 10], arch);
            assert!(y[160..320].iter().all(|y| y.is_nan()));
            assert!(same_bits(&y[..160], &clean[..160]) && same_bits(&y[320..], &clean[320..]));
            x[12 * width(&op) + op.k_column] = f32::INFINITY;
            assert!(attention(&op, &x, &[10, 10, 10], arch)[160..320].iter().any(|y| y.is_nan()));
        }
    }
}
