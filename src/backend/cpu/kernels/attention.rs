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

impl Attend<'_> {
    fn run(self, arch: Arch) {
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
                .run(arch);
                arch.dispatch(Exponentials {
                    scores: &mut scores[..rows * keys.padded],
                    columns: keys.padded,
                    length,
                    factors,
                });
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
                .run(arch);
            }
        }
    }
}

/// `row = exp(row - max)` over the first `length` scores of each row, zeros after them; `factor = 1 / sum`.
struct Exponentials<'a> {
    /// `[rows, columns]`
    scores: &'a mut [f32],
    columns: usize,
    length: usize,
    /// One a row.
    factors: &'a mut [f32],
}

impl WithSimd for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (row, factor) in self.scores.chunks_exact_mut(self.columns).zip(self.factors) {
            row[self.length..].fill(f32::NEG_INFINITY);
            let vectors = S::as_mut_simd_f32s(row).0;
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
            *factor = 1.0 / simd.reduce_sum_f32s(sum);
        }
    }
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
        let (heads, queries) = (head * group..(head + 1) * group, 0..text.length);
        Attend { text, heads, queries, packed, working, out }.run(arch);
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
                Attend { text, heads, queries: queries.clone(), packed, working, out }.run(arch);
            }
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests;
