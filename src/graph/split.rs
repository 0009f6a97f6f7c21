//! The pass `split`: `attention` becomes products, softmax and weighted sums where one of them must stay unfused.
//!
//! These ops do not support texts of different lengths, so that texts of one length run at a time
//! ([`Graph::lengths`]). They read queries, keys and values each alone, so what computes them together becomes three
//! computations (`columns.rs`).

mod columns;

use super::fuse::{Done, Fusion, Outcome};
use super::{Graph, Node, Source, ValueId};
use crate::ops::{Attention, AttentionBias, AttentionOutput, AttentionScores, Dim, Op, Shape, Softmax};

/// Why attention with vectors by distance has no parts.
pub const BY_CONTENT: &str = "its scores have terms by distance and content";

/// Runs the pass on every node; returns the records.
pub(super) fn all(graph: &mut Graph, fusion: &Fusion<'_>) -> Vec<Outcome> {
    let (mut outcomes, mut index) = (Vec::new(), 0);
    while index < graph.nodes.len() {
        outcomes.extend(attempt(graph, index, fusion));
        index += 1;
    }
    // Attention in parts reads other products.
    graph.drop_unneeded();
    outcomes
}

/// Splits node `index`, or leaves it; `None` for another op than `attention`.
fn attempt(graph: &mut Graph, index: usize, fusion: &Fusion<'_>) -> Option<Outcome> {
    let (node, op) = (graph.nodes[index].name.clone(), Attention::of(&graph.nodes[index].op)?);
    let done = match reason(op, fusion) {
        None => Done::Left,
        Some(reason) => match take_apart(graph, index, fusion.architecture) {
            Ok(()) => Done::Split(reason),
            Err(fault) => {
                log::warn!(target: "grilly", "{node} stays fused ({fault}), although {reason}");
                Done::Declined(format!("{fault}, although {reason}"))
            }
        },
    };
    Some(Outcome { pass: "split", node, done })
}

/// The ops that an `attention` is equivalent to, and the numbers of their operands.
pub fn parts(op: &Attention, architecture: &str) -> Vec<(Op, usize)> {
    let &Attention { soft_cap, window, global_tokens, bias, .. } = op;
    let mut parts: Vec<(Op, usize)> = vec![(AttentionScores { scale: op.scale }.into(), 2)];
    if bias || soft_cap > 0.0 || window > 0 {
        parts.push((AttentionBias { soft_cap, window, global_tokens }.into(), 1 + usize::from(bias)));
    }
    let output =
        AttentionOutput { architecture: architecture.to_owned(), window, global_tokens, ..AttentionOutput::default() };
    parts.extend([(Softmax { causal: op.causal, masked: false }.into(), 1), (output.into(), 2)]);
    parts
}

/// The reason why the op must not stay fused.
fn reason(op: &Attention, fusion: &Fusion<'_>) -> Option<String> {
    parts(op, fusion.architecture).iter().find_map(|(op, operands)| (fusion.apart)(op, *operands))
}

/// Checks that the op has parts, for keys that are rows of the queries' texts or of a second sequence.
///
/// # Errors
/// The reason why it has none.
fn check(graph: &Graph, op: &Attention, operands: &[ValueId]) -> Result<(), String> {
    let shape = |place: usize| &graph.value(operands[place]).shape;
    let [q_offsets, kv_offsets] = [operands[3], operands[4]];
    let alike = match shape(1).rows() {
        Dim::Tokens => q_offsets == kv_offsets,
        rows => matches!(rows, Dim::Counted(_)) && op.shared_by == 1,
    };
    let fault = if op.distances.is_some() {
        BY_CONTENT
    } else if !alike {
        "its queries and keys are not of as many texts"
    } else if op.align_end {
        "its positions count from the last key"
    } else if op.window > 0 && q_offsets != kv_offsets {
        "its window may hide all keys of another sequence"
    } else if op.bias && shape(5).rows() != Dim::Fixed(op.heads) {
        "its biases differ between texts"
    } else {
        return Ok(());
    };
    Err(fault.to_owned())
}

/// Replaces node `index` by its parts.
fn take_apart(graph: &mut Graph, index: usize, architecture: &str) -> Result<(), String> {
    let node = graph.nodes[index].clone();
    let Op::Attention(op) = &node.op else { return Err("it is no attention".into()) };
    check(graph, op, &node.operands)?;
    let start = graph.nodes.len();
    let mixed = add(graph, &node, op, architecture);
    let nodes = graph.nodes.split_off(start);
    let mixed = mixed?;
    graph.nodes.splice(index..=index, nodes);
    graph.values[node.results[0].0].source = Source::View(mixed);
    for (place, offsets) in [(0, 3), (1, 4)] {
        let rows = graph.value(node.operands[place]).shape.rows();
        let bounded = (rows, node.operands[offsets]);
        if !graph.lengths.contains(&bounded) {
            graph.lengths.push(bounded);
        }
    }
    Ok(())
}

/// Adds the parts of a node's op, and what computes their operands; returns the last result.
fn add(graph: &mut Graph, node: &Node, op: &Attention, architecture: &str) -> Result<ValueId, String> {
    let Node { name, operands, .. } = node;
    let of =
        [("queries", op.q_column, op.heads), ("keys", op.k_column, op.kv_heads), ("values", op.v_column, op.kv_heads)];
    let mut given = Vec::new();
    for (place, (label, first, heads)) in of.into_iter().enumerate() {
        let label = format!("{name} {label}");
        let part = columns::of(graph, &label, operands[place], first..first + heads * op.head_dim)?;
        let length = graph.value(operands[place]).shape.rows().per_text();
        let shape = Shape(vec![Dim::Texts, length, Dim::Fixed(heads), Dim::Fixed(op.head_dim)]);
        given.push(graph.view(&label, part, shape));
    }
    let mut last = given[0];
    for (part, _) in parts(op, architecture) {
        let second = match part {
            Op::AttentionScores(_) => Some(given[1]),
            Op::AttentionOutput(_) => Some(given[2]),
            Op::AttentionBias(_) => operands[5..].first().copied(),
            _ => None,
        };
        let operands: Vec<ValueId> = std::iter::once(last).chain(second).collect();
        let label = format!("{name} {}", part.name().trim_start_matches("attention_"));
        last = graph.node(&label, part, &operands).map_err(|error| error.to_string())?;
    }
    Ok(last)
}

#[cfg(test)]
mod tests;
