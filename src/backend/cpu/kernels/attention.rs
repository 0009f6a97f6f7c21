//! Attention of packed texts, one text and head at a time, all of it in the nearest caches.
//!
//! ```text
//! pack:    K^T in panels [key panel][head_dim][width],  V in panels [column panel][L][width]
//! attend:  a few queries at a time: scores = scale Q K^T, e = exp(scores - max), y = (e V) / sum e
//! ```
//! A row of scores is whole (no rescaling), and its sums over keys start at the text's first key: neighbours in the
//! batch, the number of queries done at once and the number of threads change no bit. Causal attention leaves the keys
//! out that no query of a block sees; the weights of the others beyond the diagonal are zeros, which add nothing.

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
    /// Row of the first query.
    first_query: usize,
    /// Queries.
    queries: usize,
    /// Row of the first key.
    start: usize,
    /// Keys.
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

    /// Writes a head's keys and values.
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

    /// Keys that a query sees.
    fn seen(&self, query: usize) -> usize {
        if self.op.causal { self.length.min(query + 1) } else { self.length }
    }
}

/// Some queries of one text against one key-value head.
struct Attend<'a> {
    text: Text<'a>,
    /// Query heads.
    heads: Range<usize>,
    /// Queries, counted from the text's first.
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
        // Zero times a hidden key's NaN or infinity would not be zero: then every row has the keys it sees and no more.
        let apart = op.causal && !packed_values.iter().all(|x| x.is_finite());
        for head in self.heads.clone() {
            for block in 0..blocks {
                let (from, to) = (self.queries.len() * block / blocks, self.queries.len() * (block + 1) / blocks);
                let (rows, first) = (to - from, self.queries.start + from);
                let seen = self.text.seen(self.queries.start + to - 1);
                // Whole vectors.
                let padded = if op.causal { seen.next_multiple_of(keys.width / keys.vectors) } else { keys.padded };
                Product {
                    a: self.text.q.head(self.text.first_query + first, head, dim),
                    a_stride: self.text.q.stride,
                    rows,
                    depth: dim,
                    panels: packed_keys,
                    panel_depth: dim,
                    vectors: keys.vectors,
                    columns: padded,
                    scale: Scale::All(op.scale),
                    bias: &[],
                    finish: Finish::default(),
                    out: scores,
                    out_stride: keys.padded,
                }
                .run(arch);
                arch.dispatch(Exponentials {
                    scores: &mut scores[..rows * keys.padded],
                    stride: keys.padded,
                    columns: padded,
                    lengths: (self.text.seen(first), usize::from(op.causal), length),
                    factors,
                });
                let each = if apart { 1 } else { rows };
                for row in (0..rows).step_by(each) {
                    Product {
                        a: &scores[row * keys.padded..],
                        a_stride: keys.padded,
                        rows: each,
                        depth: if apart { self.text.seen(first + row) } else { seen },
                        panels: packed_values,
                        panel_depth: length,
                        vectors: columns.vectors,
                        columns: dim,
                        scale: Scale::Rows(&factors[row..]),
                        bias: &[],
                        finish: Finish::default(),
                        out: &mut self.out[(from + row) * stride + head * dim..],
                        out_stride: stride,
                    }
                    .run(arch);
                }
            }
        }
    }
}

/// `row = exp(row - max)` over the scores of the keys a row sees, zeros after them; `factor = 1 / sum`.
struct Exponentials<'a> {
    /// Rows of `columns`, `stride` apart.
    scores: &'a mut [f32],
    stride: usize,
    columns: usize,
    /// Keys of the first row, how many more each next one sees, and the most of all.
    lengths: (usize, usize, usize),
    /// One a row.
    factors: &'a mut [f32],
}

impl WithSimd for Exponentials<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (first, more, most) = self.lengths;
        for (i, (row, factor)) in self.scores.chunks_exact_mut(self.stride).zip(self.factors).enumerate() {
            let row = &mut row[..self.columns];
            row[(first + i * more).min(most)..].fill(f32::NEG_INFINITY);
            let vectors = S::as_mut_simd_f32s(row).0;
            let mut most = simd.splat_f32s(f32::NEG_INFINITY);
            for x in vectors.iter() {
                most = simd.max_f32s(most, *x);
            }
            // A NaN that the maximum drops is still among the scores, and makes the sum NaN.
            let most = simd.splat_f32s(simd.reduce_max_f32s(most));
            let mut sum = simd.splat_f32s(0.0);
            for x in vectors {
                *x = simd::exp_falling(simd, simd.sub_f32s(*x, most));
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
    if op.window > 0 || op.align_end || op.bias || op.shared_by > 1 {
        let reason = "windows, biases and places from the end on are not there yet".into();
        return Err(Error::Unsupported { what: "attention on the CPU".into(), reason });
    }
    let q = Operand::new(step, operands[0], op.q_column)?;
    let k = Operand::new(step, operands[1], op.k_column)?;
    let v = Operand::new(step, operands[2], op.v_column)?;
    let (queries, keys) = (step.indices(operands[3])?, step.indices(operands[4])?);
    let (lanes, stride) = (simd::lanes(step.arch), op.heads * op.head_dim);
    if stride == 0 {
        return Ok(());
    }
    let rows = |place: usize| step.shape(operands[place]).rows().size(step.counts);
    for (name, offsets, rows) in [("q_offsets", queries, rows(0)), ("kv_offsets", keys, rows(1))] {
        let rising = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        let ends = [offsets.first(), offsets.last()].map(|end| end.map(|end| *end as usize));
        if !rising || offsets.len() != queries.len() || ends != [Some(0), Some(rows)] {
            return Err(Error::InvalidArgument(format!("attention: {name} does not rise from 0 to {rows}")));
        }
    }
    let mut rest = out;
    for (query, key) in queries.windows(2).zip(keys.windows(2)) {
        let (first_query, queries) = (query[0] as usize, (query[1] - query[0]) as usize);
        let (start, length) = (key[0] as usize, (key[1] - key[0]) as usize);
        let (own, after) = rest.split_at_mut(queries * stride);
        rest = after;
        if queries == 0 || length == 0 {
            own.fill(0.0);
            continue;
        }
        let (keys, columns) = (Panels::new(length, lanes), Panels::new(op.head_dim, lanes));
        let text = Text { op, q, k, v, first_query, queries, start, length, keys, columns };
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
        let (heads, queries) = (head * group..(head + 1) * group, 0..text.queries);
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
    let rows = text.queries.div_ceil(threads).min(text.query_rows()).max(1);
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
