//! One block of queries of a head.

use std::ops::Range;

use super::slopes::Slopes;
use super::{Parts, Task};
use crate::backend::cpu::kernels::attention::{Span, Text, Weights};
use crate::backend::cpu::simd::{self, Product, Scale};

/// Rows and columns that are transposed at once.
const TURNED: usize = 16;

/// `out[j, i] = matrix[i, j]`: `[columns, rows]` from `rows` rows, `stride` apart.
#[inline(always)]
fn turn(matrix: &[f32], stride: usize, rows: usize, columns: usize, out: &mut [f32]) {
    for first in (0..columns).step_by(TURNED) {
        for (i, row) in matrix.chunks_exact(stride).take(rows).enumerate() {
            for j in first..columns.min(first + TURNED) {
                out[j * rows + i] = row[j];
            }
        }
    }
}

impl Task<'_> {
    /// Packs the keys and the values.
    pub(super) fn pack(&self, parts: &mut Parts<'_>) {
        let Text { op, k, v, start, length, keys, columns, .. } = self.text;
        let size = [length, op.head_dim];
        let [key, value] = [k, v].map(|of| move |j: usize| of.head(start + j, self.head, op.head_dim));
        keys.pack_turned(size, key, parts.by_key);
        keys.pack_turned(size, value, parts.values_by_key);
        columns.pack(size, op.hides(), key, parts.keys);
    }

    /// The gradients of some queries of the text, and what they add to those of its keys and values.
    pub(super) fn block(&self, head: usize, queries: Range<usize>, parts: &mut Parts<'_>) {
        let Text { op, q, keys, columns, length, first_query, .. } = self.text;
        let (dim, rows) = (op.head_dim, queries.len());
        let first = first_query + queries.start;
        let own = first - self.starts[0] as usize;
        let stride = self.group() * dim;
        let out = own * stride + head % self.group() * dim;
        let end = Span::of(&self.text, queries.clone()).end;
        if end == 0 {
            parts.dq[out..].chunks_mut(stride).take(rows).for_each(|row| row[..dim].fill(0.0));
            return;
        }
        self.weigh(head, queries.clone(), end, parts);
        Product {
            a: (parts.slopes, keys.padded),
            rows,
            depth: end,
            panels: parts.keys,
            panel_depth: length,
            vectors: columns.vectors,
            columns: dim,
            scale: Scale::All(op.scale),
            out: (&mut parts.dq[out..], stride),
            ..Product::default()
        }
        .run(self.arch);
        if op.hides() {
            self.add_wild_keys(queries.clone(), end, &parts.slopes[..], &mut parts.dq[out..]);
        }
        let Parts { rows: by_column, turned, product, .. } = parts;
        for (matrix, operand, scale, sums) in
            [(&*parts.weights, self.g, 1.0, &mut *parts.dv), (&*parts.slopes, q, op.scale, &mut *parts.dk)]
        {
            let row = |i: usize| operand.head(first + i, head, dim);
            columns.pack([rows, dim], op.hides(), row, by_column);
            let (turned, product) = (&mut turned[..rows * end], &mut product[..end * dim]);
            self.arch.vectorized(inlined!(|| turn(matrix, keys.padded, rows, end, turned)));
            Product {
                a: (turned, rows),
                rows: end,
                depth: rows,
                panels: by_column,
                panel_depth: rows,
                vectors: columns.vectors,
                columns: dim,
                scale: Scale::All(scale),
                out: (product, dim),
                ..Product::default()
            }
            .run(self.arch);
            sums.iter_mut().zip(product.iter()).for_each(|(sum, x)| *sum += x);
            if op.hides() {
                for (i, query) in queries.clone().enumerate() {
                    let wild = &row(i)[..dim];
                    if wild.iter().all(|x| x.is_finite()) {
                        continue;
                    }
                    for key in (0..end).filter(|key| self.text.sees(query, *key)) {
                        add_wild(&mut sums[key * dim..], wild, scale * matrix[i * keys.padded + key]);
                    }
                }
            }
        }
    }

    /// Adds to the gradients of queries what the products left out: keys that are not finite, where they are visible.
    fn add_wild_keys(&self, queries: Range<usize>, end: usize, slopes: &[f32], out: &mut [f32]) {
        let Text { op, k, keys, start, .. } = self.text;
        let (dim, stride) = (op.head_dim, self.group() * op.head_dim);
        for key in 0..end {
            let wild = &k.head(start + key, self.head, dim)[..dim];
            if wild.iter().all(|x| x.is_finite()) {
                continue;
            }
            for (i, _) in queries.clone().enumerate().filter(|(_, query)| self.text.sees(*query, key)) {
                add_wild(&mut out[i * stride..], wild, op.scale * slopes[i * keys.padded + key]);
            }
        }
    }

    /// The weights of a block and the gradients of its scores, for the keys before `end`.
    fn weigh(&self, head: usize, queries: Range<usize>, end: usize, parts: &mut Parts<'_>) {
        let Text { op, q, keys, first_query, .. } = self.text;
        let (dim, rows) = (op.head_dim, queries.len());
        let first = first_query + queries.start;
        // Whole vectors.
        let used = end.next_multiple_of(keys.width / keys.vectors);
        for (operand, scale, panels, out) in [
            (q, op.scale, &*parts.by_key, &mut *parts.weights),
            (self.g, 1.0, &*parts.values_by_key, &mut *parts.slopes),
        ] {
            Product {
                a: (operand.head(first, head, dim), operand.stride),
                rows,
                depth: dim,
                panels,
                panel_depth: dim,
                vectors: keys.vectors,
                columns: used,
                scale: Scale::All(scale),
                out: (out, keys.padded),
                ..Product::default()
            }
            .run(self.arch);
        }
        for (i, d) in parts.d[..rows].iter_mut().enumerate() {
            let [g, y] = [self.g, self.y].map(|of| &of.head(first + i, head, dim)[..dim]);
            *d = simd::sum_by([g, y], |[g, y]| g * y);
        }
        let (block, factors) = (rows * keys.padded, &mut parts.factors[..rows]);
        let (weights, slopes) = (&mut parts.weights[..block], &mut parts.slopes[..block]);
        if op.soft_cap > 0.0 {
            parts.scores[..block].copy_from_slice(weights);
        }
        self.text.drop_out(self.arch, head, &queries, end, slopes);
        let biases = self.text.biases(head);
        let parts_in_use = [0..0, 0..used];
        let text = self.text;
        self.arch.dispatch(Weights {
            text,
            first: queries.start,
            biases,
            parts: parts_in_use,
            scores: weights,
            factors,
        });
        self.arch.dispatch(Slopes {
            stride: keys.padded,
            columns: used,
            weights,
            slopes,
            scores: parts.scores,
            soft_cap: op.soft_cap,
            factors,
            d: parts.d,
        });
        self.text.drop_out(self.arch, head, &queries, end, weights);
        // What is hidden may not be finite.
        for ((weights, slopes), query) in
            weights.chunks_exact_mut(keys.padded).zip(slopes.chunks_exact_mut(keys.padded)).zip(queries)
        {
            for hidden in self.text.hidden(query, used) {
                if !hidden.is_empty() {
                    weights[hidden.clone()].fill(0.0);
                    slopes[hidden].fill(0.0);
                }
            }
        }
    }
}

/// Adds a factor times those numbers of a row that are not finite.
fn add_wild(out: &mut [f32], row: &[f32], factor: f32) {
    out.iter_mut().zip(row).filter(|(_, x)| !x.is_finite()).for_each(|(y, x)| *y += factor * x);
}
