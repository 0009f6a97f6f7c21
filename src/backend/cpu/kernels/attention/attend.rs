//! Some queries of one text against one key-value head.

use std::ops::Range;

use super::Text;
use super::distances::OneHead;
use super::weights::Weights;
use crate::backend::cpu::simd::{Arch, CHAIN, Product, Scale};

/// Some queries of one text against one key-value head.
pub(super) struct Attend<'a> {
    pub(super) text: Text<'a>,
    /// Query heads.
    pub(super) heads: Range<usize>,
    /// Queries, relative to the text's first.
    pub(super) queries: Range<usize>,
    pub(super) packed: &'a [f32],
    pub(super) working: &'a mut [f32],
    /// `[queries, heads * head_dim]`, all heads.
    pub(super) out: &'a mut [f32],
}

/// The keys processed for some queries: those before `end` without `skip`, which consists of whole chains.
pub(in crate::backend::cpu::kernels) struct Span {
    pub end: usize,
    skip: Range<usize>,
}

impl Span {
    /// The span of all keys visible to any of the queries.
    pub fn of(text: &Text<'_>, queries: Range<usize>) -> Self {
        let (mut leading, mut begin, mut end) = (0, text.length, 0);
        for query in queries {
            let sight = text.op.sight(text.place(query), text.length);
            leading = leading.max(sight.leading);
            if !sight.near.is_empty() {
                (begin, end) = (begin.min(sight.near.start), end.max(sight.near.end));
            }
        }
        let end = end.max(leading);
        let skip = leading.next_multiple_of(CHAIN)..begin.min(end) / CHAIN * CHAIN;
        Span { end, skip: if skip.is_empty() { 0..0 } else { skip } }
    }

    /// The keys before `skip` and those after it, up to `end`.
    pub fn parts(&self, end: usize) -> [Range<usize>; 2] {
        [0..self.skip.start, self.skip.end..end]
    }
}

impl Attend<'_> {
    pub(super) fn run(mut self, arch: Arch) {
        let most = self.text.query_rows();
        let blocks = self.queries.len().div_ceil(most);
        for head in self.heads.clone() {
            for block in 0..blocks {
                let (from, to) = (self.queries.len() * block / blocks, self.queries.len() * (block + 1) / blocks);
                self.block(arch, head, from..to);
            }
        }
    }

    /// Computes one head's results for the queries at these positions of ours.
    fn block(&mut self, arch: Arch, head: usize, own: Range<usize>) {
        let Text { op, keys, columns, length, .. } = self.text;
        let (dim, stride, rows) = (op.head_dim, op.heads * op.head_dim, own.len());
        let queries = self.queries.start + own.start..self.queries.start + own.end;
        let out = &mut self.out[own.start * stride + head * dim..];
        let span = Span::of(&self.text, queries.clone());
        if span.end == 0 {
            out.chunks_mut(stride).take(rows).for_each(|row| row[..dim].fill(0.0));
            return;
        }
        let [of_keys, of_values, _] = self.text.packed();
        let (packed_keys, rest) = self.packed.split_at(of_keys);
        let (packed_values, by_distance) = rest.split_at(of_values);
        let (scores, rest) = self.working.split_at_mut(self.text.query_rows() * keys.padded);
        let (factors, products) = rest.split_at_mut(self.text.query_rows());
        // Rounded up to whole vectors.
        let padded = if span.end < length { span.end.next_multiple_of(keys.width / keys.vectors) } else { keys.padded };
        let parts = span.parts(padded);
        for part in parts.clone().into_iter().filter(|part| !part.is_empty()) {
            Product {
                a: (self.text.q.head(self.text.first_query + queries.start, head, dim), self.text.q.stride),
                rows,
                depth: dim,
                panels: &packed_keys[part.start * dim..],
                panel_depth: dim,
                vectors: keys.vectors,
                columns: part.len(),
                scale: Scale::All(op.scale),
                out: (&mut scores[part.start..], keys.padded),
                ..Product::default()
            }
            .run(arch);
        }
        if let Some(distances) = self.text.distances {
            let one = OneHead { arch, text: &self.text, distances, head: head * op.kv_heads / op.heads };
            one.add(head, queries.clone(), by_distance, [products, &mut scores[..rows * keys.padded]]);
        }
        arch.dispatch(Weights {
            text: self.text,
            first: queries.start,
            biases: self.text.biases(head),
            parts,
            scores: &mut scores[..rows * keys.padded],
            factors,
        });
        self.text.drop_out(arch, head, &queries, span.end, scores);
        Product {
            a: (scores, keys.padded),
            rows,
            depth: span.end,
            skip: span.skip.clone(),
            panels: packed_values,
            panel_depth: length,
            vectors: columns.vectors,
            columns: dim,
            scale: Scale::Rows(factors),
            out: (out, stride),
            ..Product::default()
        }
        .run(arch);
        if !op.hides() {
            return;
        }
        // NaN and infinite values were excluded from the sums; they are added to the queries that see them.
        for key in span.parts(span.end).into_iter().flatten() {
            let value = &self.text.v.head(self.text.start + key, head * op.kv_heads / op.heads, dim)[..dim];
            if value.iter().all(|x| x.is_finite()) {
                continue;
            }
            for (row, query) in queries.clone().enumerate() {
                if self.text.sees(query, key) {
                    let weight = scores[row * keys.padded + key];
                    for (y, x) in out[row * stride..].iter_mut().zip(value).filter(|(_, x)| !x.is_finite()) {
                        *y += weight * x * factors[row];
                    }
                }
            }
        }
    }
}
