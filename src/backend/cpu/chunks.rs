//! Splits a batch into chunks of whole texts.

use std::borrow::Cow;

use super::threads::Team;
use crate::backend::chunk::{Chunk, aligned};
use crate::backend::{BatchLimits, Feed};
use crate::dtype::DType;
use crate::graph::{Graph, Node, Plan, ValueId};
use crate::ops::signature::Role;
use crate::ops::{Counts, Dim};
use crate::{Error, Result};

/// Tokens of a chunk that one thread runs through the plan: few enough for its activations to fit a second-level cache
/// of 1 to 2 MB, enough to amortize reading the weights.
const CHUNK_TOKENS: usize = 512;

/// With fewer tokens per thread than this, sharing every step is faster: each chunk reads all the weights.
const LEAST_TOKENS: usize = 64;

/// What determines how batches of a plan may be split.
pub struct Texts {
    /// Whether each text can be computed without the others.
    separable: bool,
    /// For each input of boundaries, the rows that they divide; `None` for other inputs.
    divided: Vec<Option<Dim>>,
}

impl Texts {
    /// Those of a plan.
    pub fn of(plan: &Plan) -> Self {
        let graph = &plan.graph;
        let alone = graph.nodes.iter().all(|node| node.op.is_separable(&graph.shapes(&node.operands)));
        let counted = graph.values.iter().any(|value| matches!(value.shape.rows(), Dim::Counted(_)));
        let divided = graph.inputs.iter().map(|id| {
            let value = graph.value(*id);
            let boundaries = value.shape.rows() == Dim::Boundaries && value.dtype == DType::U32;
            boundaries.then(|| divided(graph, *id).unwrap_or(Dim::Tokens))
        });
        Texts { separable: alone && !counted, divided: divided.collect() }
    }
}

/// The rows that boundaries divide, by the signature of an op that reads them.
fn divided(graph: &Graph, boundaries: ValueId) -> Option<Dim> {
    let rows = |node: &Node| {
        let place = node.operands.iter().position(|id| *id == boundaries)?;
        let Role::Offsets { of, .. } = node.op.operand(place).role else { return None };
        Some(graph.value(node.operands[node.op.place_of(of, place)?]).shape.rows())
    };
    graph.nodes.iter().find_map(rows)
}

/// A batch split into chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// In the batch's order.
    pub chunks: Vec<Chunk>,
    /// The threads that work on each chunk.
    pub team: Team,
}

/// Splits a batch for `threads`; 0 forbids splitting.
///
/// # Errors
/// `InvalidArgument` for offsets that do not increase from 0 to the number of rows that they divide.
pub fn cut(plan: &Plan, texts: &Texts, feed: &Feed<'_>, threads: usize) -> Result<Cut> {
    let counts = feed.counts;
    let mut boundaries: Option<Cow<'_, [u32]>> = None;
    let mut agree = texts.separable;
    for ((id, bytes), divided) in plan.graph.inputs.iter().zip(&feed.inputs).zip(&texts.divided) {
        let Some(rows) = divided else { continue };
        let offsets = aligned::<u32>(bytes);
        let ends = (offsets.first().copied(), offsets.last().map(|end| *end as usize));
        if offsets.len() != counts.texts + 1 || !offsets.is_sorted() || ends != (Some(0), Some(rows.size(counts))) {
            return Err(Error::InvalidArgument(format!(
                "{}: expected {} offsets rising from 0 to {}",
                plan.graph.value(*id).name,
                counts.texts + 1,
                rows.size(counts)
            )));
        }
        agree &= boundaries.as_ref().is_none_or(|other| *other == offsets);
        boundaries = Some(offsets);
    }
    let whole = Chunk { texts: 0..counts.texts, rows: vec![(Dim::Tokens, 0..counts.tokens)] };
    let everyone = if threads == 1 { Team::Alone } else { Team::All(threads.max(1)) };
    let Some(offsets) = boundaries.filter(|_| agree && threads > 0) else {
        return Ok(Cut { chunks: vec![whole], team: everyone });
    };
    let shared =
        |chunk_tokens: usize| Cut { chunks: deal(&offsets, counts.tokens.div_ceil(chunk_tokens)), team: everyone };
    if threads == 1 {
        return Ok(shared(CHUNK_TOKENS));
    }
    let rounds = counts.tokens.div_ceil(threads * CHUNK_TOKENS);
    let own = deal(&offsets, rounds * threads);
    let most = own.iter().map(|chunk| chunk.tokens().len()).max().unwrap_or(0);
    // Chunks of unequal size leave threads idle at the end; sharing every step costs about as much as an eighth of a
    // chunk.
    let fair = most * threads * rounds <= counts.tokens + counts.tokens / 8;
    if fair && own.len() >= threads && counts.tokens >= threads * LEAST_TOKENS {
        return Ok(Cut { chunks: own, team: Team::Alone });
    }
    Ok(shared(threads * CHUNK_TOKENS))
}

/// Splits into at most `parts` chunks, and at least one, of whole texts with nearly equal numbers of tokens.
fn deal(offsets: &[u32], parts: usize) -> Vec<Chunk> {
    let texts = offsets.len() - 1;
    let tokens = offsets[texts] as usize;
    let parts = parts.max(1);
    let mut chunks = Vec::with_capacity(parts);
    let mut first = 0;
    for part in 1..=parts {
        let goal = tokens * part / parts;
        // The boundary nearest to the goal; the last chunk takes the remainder, texts without tokens included.
        let after = offsets.partition_point(|offset| (*offset as usize) < goal).clamp(first, texts);
        let nearer = after > first && goal - (offsets[after - 1] as usize) < (offsets[after] as usize).abs_diff(goal);
        let end = if part == parts { texts } else { after - usize::from(nearer) };
        if end > first || (part == parts && chunks.is_empty()) {
            let rows = vec![(Dim::Tokens, offsets[first] as usize..offsets[end] as usize)];
            chunks.push(Chunk { texts: first..end, rows });
            first = end;
        }
    }
    chunks
}

/// The limits of a batch: about a second of work by a conservative estimate, so that a caller who stops between batches
/// does not wait long, but always enough to keep the threads busy.
pub fn limits(plan: &Plan, threads: usize) -> BatchLimits {
    const FLOPS: u64 = 40_000_000_000;
    let one = plan.flops(Counts::new(1, 1)).max(1);
    let tokens = (threads as u64 * FLOPS / one) as usize;
    BatchLimits {
        tokens: tokens.clamp(threads * CHUNK_TOKENS, threads * 8 * CHUNK_TOKENS),
        longest_text: u32::MAX as usize,
        in_flight: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_dealt_out_once_and_evenly() {
        for lengths in [vec![], vec![0], vec![5], vec![0, 0, 3, 0], vec![9, 8, 7, 7, 6, 3, 1], vec![25; 32]] {
            let offsets = crate::text::packing::offsets(lengths.iter().copied());
            for parts in [1, 2, 3, 7, 64] {
                let chunks = deal(&offsets, parts);
                assert!(!chunks.is_empty() && chunks.len() <= parts);
                let (mut text, mut token) = (0, 0);
                for chunk in &chunks {
                    assert_eq!((chunk.texts.start, chunk.tokens().start), (text, token), "{lengths:?} in {parts}");
                    (text, token) = (chunk.texts.end, chunk.tokens().end);
                }
                assert_eq!((text, token), (lengths.len(), lengths.iter().sum()), "{lengths:?} in {parts}");
            }
        }
        let even = deal(&crate::text::packing::offsets([25; 32].into_iter()), 4);
        assert!(even.iter().all(|chunk| chunk.texts.len() == 8));
    }
}
