//! Some queries of one text against one key-value head.

use std::ops::Range;

use super::super::functions::{canonical, div, mul, settle};
use super::block::{Joined, Scores};
use super::{BLOCK, Head, ROWS};
use crate::backend::cpu::exact::{integers, scale};
use crate::backend::cpu::kernels::attention::{Span, Text};
use crate::backend::cpu::simd::{Arch, ExactProduct};

/// Some queries of one text against one key-value head.
pub(super) struct Attend<'a> {
    pub arch: Arch,
    pub text: &'a Text<'a>,
    pub own: &'a Head<'a>,
    /// Query head.
    pub head: usize,
    /// At most [`ROWS`], relative to the text's first.
    pub queries: Range<usize>,
}

impl Attend<'_> {
    /// Computes the head's columns of the rows `out [queries, heads * head_dim]`.
    pub fn run(&self, out: &mut [f32]) {
        let (op, dim, rows) = (self.text.op, self.text.op.head_dim, self.queries.len());
        let stride = op.heads * dim;
        let span = Span::of(self.text, self.queries.clone());
        let parts = span.parts(span.end);
        let (scores, columns) = self.scores(&parts);
        let biases: Vec<f32> = self.text.biases(self.head).iter().map(|b| settle(*b)).collect();
        let of = Scores { text: self.text, first: self.queries.start, biases: &biases };
        let mut joined = [Joined::default(); ROWS];
        let mut sums = vec![0.0f32; rows * dim];
        let mut open = [true; ROWS];
        while open[..rows].contains(&true) {
            self.meet(&of, (&scores, columns), &parts, &open, (&mut joined[..rows], &mut sums));
            let of_rows = open.iter_mut().zip(&mut joined[..rows]).zip(sums.chunks_exact_mut(dim));
            for ((open, state), sums) in of_rows {
                *open = state.begins_again();
                if *open {
                    sums.fill(0.0);
                }
            }
        }
        self.arch.vectorized(inlined!(|| {
            let rows = out.chunks_exact_mut(stride).zip(sums.chunks_exact(dim));
            for (state, (out, sums)) in joined.iter().zip(rows) {
                let factor = if state.broken { f32::NAN } else { div(1.0, state.sum) };
                let y = &mut out[self.head * dim..][..dim];
                match state.sum == 0.0 && !state.broken {
                    true => y.fill(0.0),
                    false => y.iter_mut().zip(sums).for_each(|(y, sum)| *y = canonical(mul(*sum, factor))),
                }
            }
        }));
    }

    /// Adds the blocks that some parts of the keys lie in to the sums of the queries that are open.
    fn meet(
        &self,
        of: &Scores<'_>,
        (scores, columns): (&[f32], usize),
        parts: &[Range<usize>],
        open: &[bool; ROWS],
        (joined, sums): (&mut [Joined], &mut [f32]),
    ) {
        let (dim, values, rows) = (self.text.op.head_dim, &self.own.values, joined.len());
        let mut added = vec![0.0f32; rows * dim];
        let (mut weights, mut factors) = ([[0.0f64; BLOCK]; ROWS], [0.0f64; ROWS]);
        let end = parts.iter().map(|part| part.end).max().unwrap_or(0);
        for start in (0..end).step_by(BLOCK) {
            let keys = start..self.text.length.min(start + BLOCK);
            if parts.iter().all(|part| part.end <= keys.start || keys.end <= part.start) {
                continue;
            }
            let exponents = &values.exponents[keys.clone()];
            self.arch.vectorized(inlined!(|| {
                for (i, state) in joined.iter_mut().enumerate() {
                    if !open[i] {
                        factors[i] = state.pass(&mut weights[i]);
                        continue;
                    }
                    let scores = &scores[i * columns..][keys.clone()];
                    let seen = of.seen(i, keys.start, scores, state.reference);
                    factors[i] = state.meet(&seen, exponents, &mut weights[i]);
                    state.broken |= self.own.broken.iter().any(|key| keys.contains(key) && seen.sees(key - start));
                }
            }));
            if joined.iter().all(|state| !state.met) {
                continue;
            }
            ExactProduct {
                a: (weights.as_flattened(), BLOCK),
                rows,
                depth: keys.len(),
                panels: &values.panels[start * values.shape.width..],
                panel_depth: self.text.length,
                vectors: values.shape.vectors,
                columns: dim,
                row_scales: &factors[..rows],
                column_scales: &self.own.ones,
                out: (&mut added, dim),
            }
            .run(self.arch);
            self.arch.vectorized(inlined!(|| {
                let rows = sums.chunks_exact_mut(dim).zip(added.chunks_exact(dim));
                for (state, (sums, added)) in joined.iter().zip(rows).filter(|(state, _)| state.met) {
                    sums.iter_mut().zip(added).for_each(|(sum, x)| *sum = state.shifted(*sum) + settle(*x));
                }
            }));
        }
    }

    /// The products with the keys of some parts, with terms by distance, scaled, and the columns of a row of them.
    fn scores(&self, parts: &[Range<usize>]) -> (Vec<f32>, usize) {
        let (text, dim, keys) = (self.text, self.text.op.head_dim, &self.own.keys);
        let (rows, columns) = (self.queries.len(), keys.shape.padded);
        let (mut q, mut exponents, mut factors) = (vec![0.0f64; rows * dim], [0; ROWS], [0.0f64; ROWS]);
        self.arch.vectorized(inlined!(|| {
            for (i, q) in q.chunks_exact_mut(dim).enumerate() {
                let row = text.q.head(text.first_query + self.queries.start + i, self.head, dim);
                exponents[i] = integers(&row[..dim], q);
                factors[i] = scale(exponents[i]);
            }
        }));
        let mut scores = vec![0.0f32; rows * columns];
        for part in parts.iter().filter(|part| !part.is_empty()) {
            let first = part.start / keys.shape.width * keys.shape.width;
            ExactProduct {
                a: (&q, dim),
                rows,
                depth: dim,
                panels: &keys.panels[first * dim..],
                panel_depth: dim,
                vectors: keys.shape.vectors,
                columns: part.end - first,
                row_scales: &factors[..rows],
                column_scales: &self.own.key_scales[first..],
                out: (&mut scores[first..], columns),
            }
            .run(self.arch);
        }
        if let Some(distances) = &self.own.distances {
            scores.iter_mut().for_each(|s| *s = settle(*s));
            distances.add(self.arch, self.queries.start, &q, &exponents[..rows], (&mut scores, columns));
        }
        let scale = settle(text.op.scale);
        self.arch.vectorized(inlined!(|| scores.iter_mut().for_each(|s| *s = mul(settle(*s), scale))));
        (scores, columns)
    }
}
