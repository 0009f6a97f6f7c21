//! Scores by distance: the products of queries and of keys with the vectors of the distance between them.
//!
//! ```text
//! pack:  a^T in panels [panel][head_dim][width],  scale K b^T [L, padded]
//! add:   scores[i, j] += (scale Q a^T)[i, r] + (scale K b^T)[j, r],  r the row of distance j - place(i)
//! ```

use std::ops::Range;

use super::{Operand, Text};
use crate::backend::cpu::panels::Panels;
use crate::backend::cpu::simd::{Arch, Product, Scale, Widest};

/// The vectors, row `reach + d` for distance `d`.
#[derive(Clone, Copy)]
pub(in crate::backend::cpu::kernels) struct Vectors<'a> {
    /// What queries meet, and what keys meet.
    pub met: [Option<Operand<'a>>; 2],
    pub reach: i64,
}

/// Those of the distances in one text.
pub(in crate::backend::cpu::kernels) struct Distances<'a> {
    vectors: Vectors<'a>,
    /// The first row in use.
    first: usize,
    /// The rows of all distances from that of the last query to the first key on, counted from `first`.
    places: Vec<u32>,
    /// Rows in use.
    count: usize,
    /// Panels of these rows.
    pub panels: Panels,
}

impl<'a> Distances<'a> {
    /// For queries at the positions `places` and so many keys.
    pub fn new(vectors: Vectors<'a>, places: Range<i64>, keys: usize, widest: Widest) -> Self {
        let row = |distance: i64| distance.clamp(-vectors.reach, vectors.reach) + vectors.reach;
        let distances = 1 - places.end..keys as i64 - places.start;
        let first = row(distances.start);
        let places: Vec<u32> = distances.map(|distance| (row(distance) - first) as u32).collect();
        let count = places.last().map_or(0, |last| *last as usize + 1);
        Distances { vectors, first: first as usize, places, count, panels: Panels::new(count, widest) }
    }

    /// Floats of `a` packed, of the keys' products with `b`, and of `b` packed.
    fn parts(&self, text: &Text<'_>) -> [usize; 3] {
        let (panels, keys) = (text.op.head_dim * self.panels.padded, text.length * self.panels.padded);
        let [a, b] = self.vectors.met.map(|vectors| usize::from(vectors.is_some()));
        [a * panels, b * keys, b * panels]
    }

    /// Floats that [`OneHead::pack`] fills.
    pub fn packed(&self, text: &Text<'_>) -> usize {
        self.parts(text).iter().sum()
    }

    /// The places of a text's keys, seen from a query.
    fn seen_from(&self, query: usize, text: &Text<'_>) -> &[u32] {
        &self.places[text.queries - 1 - query..][..text.length]
    }
}

/// One key-value head of a text.
pub(super) struct OneHead<'a> {
    pub arch: Arch,
    pub text: &'a Text<'a>,
    pub distances: &'a Distances<'a>,
    pub head: usize,
}

impl OneHead<'_> {
    /// Packs what the queries meet, and multiplies the keys with what they meet.
    pub fn pack(&self, packed: &mut [f32]) {
        let Distances { vectors: Vectors { met: [a, b], .. }, panels, .. } = self.distances;
        let [of_a, of_keys, _] = self.distances.parts(self.text);
        let (packed_a, rest) = packed.split_at_mut(of_a);
        let (keys, packed_b) = rest.split_at_mut(of_keys);
        if let Some(vectors) = a {
            self.turn(vectors, packed_a);
        }
        if let Some(vectors) = b {
            self.turn(vectors, packed_b);
            let rows = self.text.k.head(self.text.start, self.head, self.text.op.head_dim);
            self.multiply((rows, self.text.k.stride), packed_b, 0..panels.padded, keys);
        }
    }

    /// The vectors in use, transposed in panels.
    fn turn(&self, vectors: &Operand<'_>, packed: &mut [f32]) {
        let Distances { first, count, panels, .. } = *self.distances;
        let dim = self.text.op.head_dim;
        panels.pack_turned([count, dim], |row| vectors.head(first + row, self.head, dim), packed);
    }

    /// The scaled products of rows with packed vectors, of those columns only, which begin with a panel: as many rows
    /// as `out` has.
    fn multiply(&self, (rows, stride): (&[f32], usize), packed: &[f32], columns: Range<usize>, out: &mut [f32]) {
        let (panels, dim) = (self.distances.panels, self.text.op.head_dim);
        Product {
            a: (rows, stride),
            rows: out.len() / panels.padded,
            depth: dim,
            panels: &packed[columns.start * dim..],
            panel_depth: dim,
            vectors: panels.vectors,
            columns: columns.len(),
            scale: Scale::All(self.text.op.scale),
            out: (&mut out[columns.start..], panels.padded),
            ..Product::default()
        }
        .run(self.arch);
    }

    /// Adds to the scores of some queries of the query head `head`, one row per query; `packed` is what
    /// [`OneHead::pack`] filled, `products` has room for one row of panels per query.
    pub fn add(&self, head: usize, queries: Range<usize>, packed: &[f32], [products, scores]: [&mut [f32]; 2]) {
        let Distances { vectors: Vectors { met: [a, b], .. }, panels, .. } = self.distances;
        let [of_a, of_keys, _] = self.distances.parts(self.text);
        let (packed_a, keys) = (&packed[..of_a], &packed[of_a..of_a + of_keys]);
        let of = |query: usize| self.distances.seen_from(query, self.text);
        if a.is_some() {
            let (first, last) = (of(queries.end - 1)[0], of(queries.start)[self.text.length - 1]);
            let columns = first as usize / panels.width * panels.width..last as usize + 1;
            let products = &mut products[..queries.len() * panels.padded];
            let own = self.text.q.head(self.text.first_query + queries.start, head, self.text.op.head_dim);
            self.multiply((own, self.text.q.stride), packed_a, columns, products);
            let rows = scores.chunks_exact_mut(self.text.keys.padded).zip(queries.clone());
            for ((row, query), products) in rows.zip(products.chunks_exact(panels.padded)) {
                row.iter_mut().zip(of(query)).for_each(|(score, place)| *score += products[*place as usize]);
            }
        }
        if b.is_some() {
            for (row, query) in scores.chunks_exact_mut(self.text.keys.padded).zip(queries) {
                let products = keys.chunks_exact(panels.padded).zip(of(query));
                row.iter_mut().zip(products).for_each(|(score, (of_key, place))| *score += of_key[*place as usize]);
            }
        }
    }
}
