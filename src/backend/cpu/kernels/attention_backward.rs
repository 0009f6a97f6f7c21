//! Gradients of attention of packed texts, for one text of keys and one of their heads at a time.
//!
//! ```text
//! pack:   K^T and V^T in panels [key panel][head_dim][width],  K in panels [column panel][L][width]
//! block:  a few queries of a text at a time: P = softmax(scale Q K^T + biases), S = P (G V^T - d) c,
//!         dQ = scale S K,  dV += P^T G,  dK += scale S^T Q; dropout drops elements of G V^T, and of P in dV
//! ```
//! What a key sums over the blocks of queries is added in the order of the heads that share it, of the texts that do, and of
//! these texts' queries; the number of threads changes no bit.

mod block;
mod slopes;

use rayon::prelude::*;

use super::Memory;
use super::attention::{Operand, Text, check_offsets};
use crate::backend::cpu::simd::Arch;
use crate::backend::cpu::step::Step;
use crate::backend::cpu::threads::Team;
use crate::ops::AttentionBackward;
use crate::text::packing;
use crate::{Error, Result, exit};

/// Numbers of a block's matrices, each of which has a row per query and a column per key: some fit a second-level cache.
const SCORES: usize = 32 << 10;

/// The texts of queries that share a text of keys, and one of the heads of these keys.
#[derive(Clone, Copy)]
struct Task<'a> {
    arch: Arch,
    /// The first of the texts.
    text: Text<'a>,
    g: Operand<'a>,
    y: Operand<'a>,
    /// First query of each text, and the end of the last.
    starts: &'a [u32],
    head: usize,
}

/// The memory of a task, by part.
struct Parts<'m> {
    /// Results: `[queries, heads that share the keys, head_dim]`, `[keys, head_dim]` and the same.
    dq: &'m mut [f32],
    dk: &'m mut [f32],
    dv: &'m mut [f32],
    /// Panels of `K^T`, `V^T` and `K`.
    by_key: &'m mut [f32],
    values_by_key: &'m mut [f32],
    keys: &'m mut [f32],
    /// Of a block, a row per query and a column per key: weights, `G V^T` and then `S`, scores before the soft cap.
    weights: &'m mut [f32],
    slopes: &'m mut [f32],
    scores: &'m mut [f32],
    /// One of these, transposed.
    turned: &'m mut [f32],
    /// Panels of the block's `G` or `Q`, and a product `[keys, head_dim]`.
    rows: &'m mut [f32],
    product: &'m mut [f32],
    /// Per query.
    factors: &'m mut [f32],
    d: &'m mut [f32],
}

impl Task<'_> {
    /// Query heads that share the keys.
    fn group(&self) -> usize {
        self.text.op.heads / self.text.op.kv_heads
    }

    fn queries(&self) -> usize {
        (self.starts[self.starts.len() - 1] - self.starts[0]) as usize
    }

    /// Queries of a block.
    fn block_rows(&self) -> usize {
        (SCORES / self.text.keys.padded).clamp(16, 64) / 8 * 8
    }

    /// Floats of each part.
    fn sizes(&self) -> [usize; 14] {
        let Text { op, length, keys, columns, .. } = self.text;
        let (dim, rows) = (op.head_dim, self.block_rows());
        let (block, capped) = (rows * keys.padded, if op.soft_cap > 0.0 { rows * keys.padded } else { 0 });
        let (dq, dk, panels) = (self.queries() * self.group() * dim, length * dim, dim * keys.padded);
        let (keys, by_column) = (length * columns.padded, rows * columns.padded);
        [dq, dk, dk, panels, panels, keys, block, block, capped, block, by_column, dk, rows, rows]
    }

    fn parts<'m>(&self, mut memory: &'m mut [f32]) -> Parts<'m> {
        let [dq, dk, dv, by_key, values_by_key, keys, weights, slopes, scores, turned, rows, product, factors, d] =
            self.sizes().map(|size| {
                let (part, rest) = std::mem::take(&mut memory).split_at_mut(size);
                memory = rest;
                part
            });
        Parts { dq, dk, dv, by_key, values_by_key, keys, weights, slopes, scores, turned, rows, product, factors, d }
    }

    /// Computes the gradients of the head into the first parts of `memory`.
    fn run(&self, memory: &mut [f32]) {
        let mut parts = self.parts(memory);
        parts.dk.fill(0.0);
        parts.dv.fill(0.0);
        self.pack(&mut parts);
        let (group, rows) = (self.group(), self.block_rows());
        for head in self.head * group..(self.head + 1) * group {
            for (place, ends) in self.starts.windows(2).enumerate() {
                let (first_query, queries) = (ends[0] as usize, (ends[1] - ends[0]) as usize);
                let text = Text { number: self.text.number + place, first_query, queries, ..self.text };
                let task = Task { text, ..*self };
                for first in (0..queries).step_by(rows) {
                    task.block(head, first..queries.min(first + rows), &mut parts);
                }
            }
        }
    }

    /// Copies the results to the rows of the gradients, one for `q`, `k` and `v` or one for each.
    fn store(&self, op: &AttentionBackward, memory: &mut [f32], results: &mut [&mut [f32]]) {
        let parts = self.parts(memory);
        let Text { op: of, q, k, v, start, .. } = self.text;
        let (own, shared) = (of.head_dim, self.group() * of.head_dim);
        let [of_q, of_k, of_v] = op.columns().map(|(first, _)| first);
        let first_query = self.starts[0] as usize;
        for (place, (part, row, stride, column, width)) in [
            (parts.dq, first_query, q.stride, of_q + self.head * shared, shared),
            (parts.dk, start, k.stride, of_k + self.head * own, own),
            (parts.dv, start, v.stride, of_v + self.head * own, own),
        ]
        .into_iter()
        .enumerate()
        {
            let out = &mut results[if op.packed { 0 } else { place }];
            for (out, part) in out.chunks_exact_mut(stride).skip(row).zip(part.chunks_exact(width)) {
                out[column..column + width].copy_from_slice(part);
            }
        }
    }
}

pub(super) fn attention_backward(step: &Step<'_>, op: &AttentionBackward, memory: Memory<'_, '_>) -> Result<()> {
    let Memory { results, scratch } = memory;
    if results.len() != if op.packed { 1 } else { 3 } {
        return Err(Error::InvalidArgument(format!("attention_backward: {} results", results.len())));
    }
    results.iter_mut().for_each(|result| result.fill(0.0));
    let of = &op.of;
    let [g, y] = [Operand::new(step, 0, 0)?, Operand::new(step, 1, 0)?];
    let (given, queries, keys) = (Text::of(step, of, 2)?, step.indices(5)?, step.indices(6)?);
    if of.heads * of.head_dim == 0 {
        return Ok(());
    }
    let rows = |place: usize| step.shape(place).rows().size(step.counts);
    check_offsets(of, [queries, keys], [rows(2), rows(3)])?;
    for shared in 0..keys.len() - 1 {
        let number = shared * of.shared_by;
        let starts = &queries[number..][..of.shared_by + 1];
        let first = starts[0] as usize;
        let text = given.at(number, [first..first, packing::rows(keys, shared)]);
        if text.length == 0 || starts[0] == starts[of.shared_by] {
            continue;
        }
        let task = |head| Task { arch: step.arch, text, g, y, starts, head };
        let one = task(0).sizes().iter().sum::<usize>();
        let side_by_side = if step.team == Team::Alone { 1 } else { of.kv_heads };
        scratch.resize(one * side_by_side, "gradients of attention")?;
        for first in (0..of.kv_heads).step_by(side_by_side) {
            if side_by_side == 1 {
                task(first).run(scratch);
            } else {
                scratch.par_chunks_mut(one).enumerate().for_each(|(place, memory)| task(first + place).run(memory));
            }
            if exit::requested() {
                return Err(Error::Interrupted);
            }
            for (place, memory) in scratch.chunks_exact_mut(one).enumerate() {
                task(first + place).store(op, memory, results);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
