//! Attention of packed texts, one text and head at a time, within the first-level caches.
//!
//! ```text
//! pack:    K^T in panels [key panel][head_dim][width],  V in panels [column panel][L][width]
//! attend:  a few queries at a time: scores = scale Q K^T + terms by distance, e = exp(scores - max),
//!          y = (e V) / sum e, where dropout drops elements of e but of their sum
//! ```
//! A row of scores is complete (no rescaling), and its sums over keys start at the text's first key: neighbours in the
//! batch, the number of queries processed together and the number of threads change no bit. Whole chains of keys that
//! are hidden from every query of a block are skipped; hidden keys elsewhere have zero weights, which add nothing.

mod attend;
mod distances;
mod weights;

use std::ops::Range;

use attend::Attend;
pub(super) use attend::Span;
use distances::{Distances, OneHead, Vectors};
use rayon::prelude::*;
pub(super) use weights::{Weights, add_biases};

use super::Scratched;
use super::dropout::drop_out;
use crate::backend::cpu::floats::Floats;
use crate::backend::cpu::panels::Panels;
use crate::backend::cpu::simd::{Arch, Widest};
use crate::backend::cpu::step::Step;
use crate::backend::cpu::threads::Team;
use crate::exit::Request;
use crate::ops::Attention;
use crate::ops::attention::Sight;
use crate::ops::rng::Sequence;
use crate::text::packing;
use crate::{Error, Result, exit};

/// Scores in memory at a time, in floats: a third of a first-level cache.
const SCORES: usize = 4096;

/// One operand: rows of tokens; each head owns some of their columns.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    values: &'a [f32],
    pub(super) stride: usize,
    column: usize,
}

impl<'a> Operand<'a> {
    pub(super) fn new(step: &Step<'a>, place: usize, column: usize) -> Result<Self> {
        Ok(Operand { values: step.floats(place)?, stride: step.shape(place).columns(), column })
    }

    /// The elements from the first one of a head in row `row` on.
    #[inline(always)]
    pub(super) fn head(&self, row: usize, head: usize, head_dim: usize) -> &'a [f32] {
        &self.values[row * self.stride + self.column + head * head_dim..]
    }
}

/// One text.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) op: &'a Attention,
    /// Its index in the batch.
    pub(super) number: usize,
    /// Biases by distance, in rows, and their columns.
    pub(super) bias: &'a [f32],
    pub(super) reach: usize,
    /// What queries and keys meet by distance.
    pub(super) distances: Option<&'a Distances<'a>>,
    /// Of dropout: the words of its seed and offset.
    pub(super) key: Option<&'a [u32]>,
    pub(super) q: Operand<'a>,
    pub(super) k: Operand<'a>,
    pub(super) v: Operand<'a>,
    /// Row of the first query.
    pub(super) first_query: usize,
    /// Queries.
    pub(super) queries: usize,
    /// Row of the first key.
    pub(super) start: usize,
    /// Keys.
    pub(super) length: usize,
    /// Panels of the scores' columns, one column per key.
    pub(super) keys: Panels,
    /// Panels of a head's columns.
    pub(super) columns: Panels,
    /// What both are cut to.
    pub(super) widest: Widest,
}

impl<'a> Text<'a> {
    /// The operands of a step, the first at `place`, as a text without rows, which [`Text::at`] adds.
    ///
    /// # Errors
    /// `InvalidArgument` for operands of another type.
    pub(super) fn of(step: &Step<'a>, op: &'a Attention, place: usize) -> Result<Self> {
        let (widest, last) = (Widest::of_floats(step.arch), place + 5);
        let (bias, reach) = if op.bias { (step.floats(last)?, step.shape(last).columns() / 2) } else { (&[][..], 0) };
        Ok(Text {
            op,
            number: 0,
            bias,
            reach,
            distances: None,
            key: (op.dropout > 0.0).then(|| step.words(last)).transpose()?,
            q: Operand::new(step, place, op.q_column)?,
            k: Operand::new(step, place + 1, op.k_column)?,
            v: Operand::new(step, place + 2, op.v_column)?,
            first_query: 0,
            queries: 0,
            start: 0,
            length: 0,
            keys: Panels::new(0, widest),
            columns: Panels::new(op.head_dim, widest),
            widest,
        })
    }

    /// The text of that number, with its rows of queries and of keys.
    pub(super) fn at(self, number: usize, [queries, keys]: [Range<usize>; 2]) -> Self {
        Text {
            number,
            first_query: queries.start,
            queries: queries.len(),
            start: keys.start,
            length: keys.len(),
            keys: Panels::new(keys.len(), self.widest),
            ..self
        }
    }
}

impl Text<'_> {
    /// Floats of one head's packed keys, of its values, and of what depends on distances.
    fn packed(&self) -> [usize; 3] {
        let by_distance = self.distances.map_or(0, |distances| distances.packed(self));
        [self.op.head_dim * self.keys.padded, self.length * self.columns.padded, by_distance]
    }

    fn query_rows(&self) -> usize {
        (SCORES / self.keys.padded).clamp(8, 64) / 8 * 8
    }

    /// Additional floats for [`Attend`]: scores, one factor per row, and products with what depends on distances.
    fn working(&self) -> usize {
        let by_distance = self.distances.map_or(0, |distances| distances.panels.padded);
        self.query_rows() * (self.keys.padded + 1 + by_distance)
    }

    /// Packs a head's keys and values, and what depends on distances.
    fn pack(&self, arch: Arch, head: usize, packed: &mut [f32]) {
        let [keys, values, _] = self.packed();
        let (keys, rest) = packed.split_at_mut(keys);
        let (values, by_distance) = rest.split_at_mut(values);
        if let Some(distances) = self.distances {
            OneHead { arch, text: self, distances, head }.pack(by_distance);
        }
        let size = [self.length, self.op.head_dim];
        let [key, value] = [self.k, self.v].map(|of| move |j: usize| of.head(self.start + j, head, size[1]));
        self.keys.pack_turned(size, key, keys);
        // Zero times a hidden NaN or infinity would not be zero: `Attend` adds these where they are visible.
        self.columns.pack(size, self.op.hides(), value, values);
    }

    /// Drops what dropout does of the keys before `end`, in rows of weights, or of their gradients, by query.
    pub(super) fn drop_out(&self, arch: Arch, head: usize, queries: &Range<usize>, end: usize, rows: &mut [f32]) {
        let Attention { heads, dropout, stream, .. } = *self.op;
        let Some(key) = self.key else { return };
        arch.vectorized(inlined!(|| {
            for (query, row) in queries.clone().zip(rows.chunks_exact_mut(self.keys.padded)) {
                let place = (self.first_query + query) * heads + head;
                drop_out(dropout, &Sequence::of_key(key, [stream, place as u32]), 0, &mut row[..end]);
            }
        }));
    }

    /// Whether a query sees a key.
    pub(super) fn sees(&self, query: usize, key: usize) -> bool {
        let sight = self.op.sight(self.place(query), self.length);
        key < sight.leading || sight.near.contains(&key)
    }

    /// The keys from the first that a query sees to `end` that it does not see.
    pub(super) fn hidden(&self, query: usize, end: usize) -> [Range<usize>; 2] {
        let Sight { leading, near } = self.op.sight(self.place(query), self.length);
        let near = if near.is_empty() { leading..leading } else { near };
        [leading..near.start, leading.max(near.end)..end]
    }

    /// The position of a query among the keys.
    pub(super) fn place(&self, query: usize) -> i64 {
        self.op.place(query, self.queries, self.length)
    }

    /// The biases of a head by distance, from `-reach` to `reach`; none if the op has none.
    pub(super) fn biases(&self, head: usize) -> &[f32] {
        let columns = 2 * self.reach + 1;
        let rows = (self.bias.len() / columns).max(1);
        self.bias
            .get((self.number * self.op.heads + head) % rows * columns..)
            .map_or(&[], |table| &table[..columns.min(table.len())])
    }
}

pub(super) fn attention(step: &Step<'_>, op: &Attention, (out, scratch): Scratched<'_>) -> Result<()> {
    let (given, queries, keys) = (Text::of(step, op, 0)?, step.indices(3)?, step.indices(4)?);
    let stride = op.heads * op.head_dim;
    if stride == 0 {
        return Ok(());
    }
    let rows = |place: usize| step.shape(place).rows().size(step.counts);
    let vectors = match op.distances {
        None => None,
        Some([a, b]) => {
            let of = |column: Option<usize>| column.map(|column| Operand::new(step, 5, column)).transpose();
            Some(Vectors { met: [of(a)?, of(b)?], reach: rows(5) as i64 / 2 })
        }
    };
    check_offsets(op, [queries, keys], [rows(0), rows(1)])?;
    let mut rest = out;
    for number in 0..queries.len() - 1 {
        let text = given.at(number, [packing::rows(queries, number), packing::rows(keys, number / op.shared_by)]);
        let (own, after) = rest.split_at_mut(text.queries * stride);
        rest = after;
        if text.queries == 0 || text.length == 0 {
            own.fill(0.0);
            continue;
        }
        let distances = vectors
            .map(|vectors| Distances::new(vectors, text.place(0)..text.place(text.queries), text.length, given.widest));
        let text = Text { distances: distances.as_ref(), ..text };
        match step.team {
            Team::Alone => alone(step.arch, text, scratch, own)?,
            Team::All(threads) => together(step.arch, threads, text, scratch, own)?,
        }
    }
    Ok(())
}

/// Checks that offsets rise to the numbers of rows of queries and of keys.
///
/// # Errors
/// `InvalidArgument`
pub(super) fn check_offsets(op: &Attention, [queries, keys]: [&[u32]; 2], [q_rows, k_rows]: [usize; 2]) -> Result<()> {
    let texts = queries.len().saturating_sub(1);
    // A cache may have room for more keys.
    for (name, offsets, least, rows, texts) in
        [("q_offsets", queries, q_rows, q_rows, texts), ("kv_offsets", keys, 0, k_rows, texts / op.shared_by)]
    {
        let ends = offsets.last().is_some_and(|end| (least..=rows).contains(&(*end as usize)));
        if !offsets.is_sorted() || offsets.len() != texts + 1 || offsets.first() != Some(&0) || !ends {
            return Err(Error::InvalidArgument(format!("attention: {name} does not rise from 0 to {rows}")));
        }
    }
    Ok(())
}

/// One head's keys and values at a time.
fn alone(arch: Arch, text: Text<'_>, scratch: &mut Floats, out: &mut [f32]) -> Result<()> {
    let one = text.packed().iter().sum::<usize>();
    scratch.resize(one + text.working(), "attention")?;
    let (packed, working) = scratch.split_at_mut(one);
    let group = text.op.heads / text.op.kv_heads;
    for head in 0..text.op.kv_heads {
        if exit::requested() {
            return Err(Error::Interrupted);
        }
        text.pack(arch, head, packed);
        let (heads, queries) = (head * group..(head + 1) * group, 0..text.queries);
        Attend { text, heads, queries, packed, working, out }.run(arch);
    }
    Ok(())
}

/// Packs all heads at once, then distributes the queries over the threads.
fn together(arch: Arch, threads: usize, text: Text<'_>, scratch: &mut Floats, out: &mut [f32]) -> Result<()> {
    let one = text.packed().iter().sum::<usize>();
    let (group, stride) = (text.op.heads / text.op.kv_heads, text.op.heads * text.op.head_dim);
    scratch.resize(one * text.op.kv_heads, "attention")?;
    scratch.par_chunks_mut(one).enumerate().for_each(|(head, packed)| text.pack(arch, head, packed));
    let rows = text.queries.div_ceil(threads).min(text.query_rows()).max(1);
    let request = Request::current();
    out.par_chunks_mut(rows * stride).enumerate().for_each_init(
        || vec![0.0f32; text.working()],
        |working, (i, out)| {
            let queries = i * rows..i * rows + out.len() / stride;
            for (head, packed) in scratch.chunks_exact(one).enumerate().take_while(|_| !request.made()) {
                let heads = head * group..(head + 1) * group;
                Attend { text, heads, queries: queries.clone(), packed, working, out }.run(arch);
            }
        },
    );
    Ok(())
}

#[cfg(test)]
mod tests;
