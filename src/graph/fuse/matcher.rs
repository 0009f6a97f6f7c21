//! Finds the pattern of a fused op in a graph, and puts the op in its place.
//!
//! A pattern is a tree that ends with the candidate; what stands before an op of it computes one of the op's operands. The
//! fused op gets the attributes of the nodes found, and its definition must then equal them, operand by operand.

use super::Fusion;
use crate::graph::uses::Reads;
use crate::graph::{Graph, Node, Source, ValueId};
use crate::ops::definition::{Keep, Origin, Pattern, Sought, Term};
use crate::ops::{Binary, BinaryKind, Op, Shape};

/// The nodes of a pattern.
#[derive(Default)]
struct Steps {
    /// Their places, as the steps of a definition are ordered, and their operands, in the pattern's order.
    nodes: Vec<(usize, Vec<ValueId>)>,
    /// What they read and none of them computes, in the shape in which the fused op takes it.
    reads: Vec<(ValueId, Shape)>,
    /// The place of the one whose result others may read.
    kept: Option<(usize, Keep)>,
}

/// A fused op in a graph.
struct Found {
    op: Op,
    /// Each in the shape that the op takes.
    operands: Vec<(ValueId, Shape)>,
    results: Vec<ValueId>,
    /// Places of the nodes of its steps.
    places: Vec<usize>,
    /// The one of them that it takes.
    at: usize,
}

/// Replaces the nodes of a pattern that ends with node `index` by the fused op; returns its index.
///
/// # Errors
/// The reason why the pattern does not fit.
pub(super) fn fuse(
    graph: &mut Graph,
    index: usize,
    fusion: &Fusion<'_>,
    sought: &Sought,
    reads: &mut Reads,
) -> Result<usize, String> {
    let seen = &graph.value(graph.nodes[index].results[0]).shape;
    let (mut ways, mut reasons) = (Vec::new(), Vec::new());
    for operands in orders(&graph.nodes[index]) {
        let steps = steps((&*graph, &*reads), &sought.tree, index, operands, seen);
        match steps.and_then(|steps| find((&*graph, &*reads), steps, fusion, sought)) {
            Ok(way) => ways.push(way),
            Err(reason) => reasons.push(reason),
        }
    }
    reasons.dedup();
    // Of two products the later one takes their sum.
    let found = ways.into_iter().max_by_key(|way| way.places[0]).ok_or_else(|| reasons.join("; "))?;
    replace(graph, found, reads)
}

/// A node's operands, in every order in which they have the same result.
fn orders(node: &Node) -> Vec<Vec<ValueId>> {
    let given = node.operands.clone();
    match &node.op {
        Op::Binary(Binary { kind: BinaryKind::Add | BinaryKind::Multiply }) => {
            vec![given.clone(), vec![given[1], given[0]]]
        }
        _ => vec![given],
    }
}

/// The nodes of a pattern that ends with the node at `place`, with its operands in this order, whose result is read in the
/// shape `seen`.
fn steps(
    (graph, reads): (&Graph, &Reads),
    step: &Pattern,
    place: usize,
    operands: Vec<ValueId>,
    seen: &Shape,
) -> Result<Steps, String> {
    let mut found = Steps { kept: step.kept.map(|keep| (place, keep)), ..Steps::default() };
    let made = &graph.value(graph.nodes[place].results[0]).shape;
    for (position, id) in operands.iter().enumerate() {
        let own = &graph.value(*id).shape;
        // An op that keeps the shape of its rows can take them in that in which its result is read.
        let shape = if position == 0 && own == made { seen } else { own };
        let Some(before) = step.of.get(position) else {
            found.reads.push((*id, shape.clone()));
            continue;
        };
        let place = producer((graph, reads), *id, before)?;
        let ways = orders(&graph.nodes[place])
            .into_iter()
            .map(|operands| steps((graph, reads), before, place, operands, shape));
        let inner = ways.reduce(Result::or).unwrap_or(Ok(Steps::default()))?;
        found.nodes.extend(inner.nodes);
        found.reads.extend(inner.reads);
        found.kept = found.kept.or(inner.kept);
    }
    found.nodes.push((place, operands));
    Ok(found)
}

/// The node that computes a value; it must be this step, with no other reader unless its result is kept.
fn producer((graph, reads): (&Graph, &Reads), id: ValueId, step: &Pattern) -> Result<usize, String> {
    let (id, label) = (graph.viewed(id), step.label);
    let Some((place, _)) = graph.producer(id) else {
        let kind = if matches!(graph.value(id).source, Source::Weight(_)) { "a weight" } else { "an input" };
        return Err(format!("it reads {kind}, not {label}"));
    };
    let Node { name, op, operands, .. } = &graph.nodes[place];
    if (step.fits)(op) {
        let read = step.kept.is_none() && reads.of(graph, id) > 1;
        return if read { Err(format!("the result of {name} is read elsewhere too")) } else { Ok(place) };
    }
    let parts = op.definition(&graph.shapes(operands)).unwrap_or_default();
    Err(match parts.iter().any(|part| (step.fits)(&part.op)) {
        true => format!("{label} is part of {name}"),
        false => format!("it reads {}, not {label}", op.name()),
    })
}

/// The fused op that consists of these nodes.
fn find((graph, reads): (&Graph, &Reads), steps: Steps, fusion: &Fusion<'_>, sought: &Sought) -> Result<Found, String> {
    let Steps { nodes: given, reads: mut operands, kept } = steps;
    let nodes: Vec<&Node> = given.iter().map(|(place, _)| &graph.nodes[*place]).collect();
    let unlike = || format!("these are no steps of {}", sought.pass);
    let mut op = (sought.op)(&nodes.iter().map(|node| &node.op).collect::<Vec<_>>()).ok_or_else(unlike)?;
    // A step of the fused op's own kind runs in its shader.
    let mut others = nodes.iter().filter(|node| node.op.name() != op.name());
    if let Some(reason) = others.find_map(|node| (fusion.apart)(&node.op, node.operands.len())) {
        return Err(reason);
    }
    // Several steps may read one operand.
    let mut place = 1;
    while place < operands.len() && operands.len() > op.operands().len() {
        let known = operands[..place].iter().any(|(id, _)| graph.viewed(*id) == graph.viewed(operands[place].0));
        if known { drop(operands.remove(place)) } else { place += 1 }
    }
    let types: Vec<_> = operands.iter().map(|(id, _)| graph.value(*id).dtype).collect();
    let shapes: Vec<&Shape> = operands.iter().map(|(_, shape)| shape).collect();
    let stored = nodes.iter().rev().map(|node| graph.value(node.results[0]).dtype).find(|dtype| dtype.is_float());
    // A result that may be wider says nothing of the operands.
    let narrow = types.iter().copied().find(|dtype| dtype.is_narrow() && op.results()[0].wide);
    let stored = narrow.or(stored);
    let checked = op.check_types(&types, stored.unwrap_or_default()).and_then(|()| op.infer(&shapes));
    let definition = checked.and_then(|_| op.definition(&shapes)).map_err(|error| error.to_string())?;
    let made: Vec<ValueId> = nodes.iter().flat_map(|node| &node.results).copied().collect();
    let is = |term: &Term, id: ValueId| {
        let (value, shape) = match term.from {
            Origin::Operand(place) => (operands[place].0, &operands[place].1),
            Origin::Step(place) => (made[place], &graph.value(made[place]).shape),
        };
        graph.viewed(value) == graph.viewed(id) && graph.value(id).shape == *term.shape.as_ref().unwrap_or(shape)
    };
    let same = definition.iter().zip(&nodes).zip(&given).all(|((step, node), (_, given))| {
        step.op == node.op
            && step.operands.len() == given.len()
            && step.operands.iter().zip(given).all(|(term, id)| is(term, *id))
    });
    let last = nodes.last().filter(|_| same && definition.len() == nodes.len()).ok_or_else(unlike)?;
    let places: Vec<usize> = given.iter().map(|(place, _)| *place).collect();
    let (mut results, at) = (last.results.clone(), kept.map_or(places[places.len() - 1], |(place, _)| place));
    if let Some((place, keep)) = kept.filter(|(place, _)| reads.of(graph, graph.nodes[*place].results[0]) > 1) {
        *keep(&mut op).ok_or_else(unlike)? = true;
        results.push(graph.nodes[place].results[0]);
    }
    // All steps but the one at this place run earlier or later than before.
    let late = |(id, _): &&(ValueId, Shape)| {
        graph.updated_by(*id).is_some_and(|place| place < at)
            || graph.producer(*id).is_some_and(|(place, _)| place > at)
    };
    match operands.iter().find(late) {
        Some((id, _)) => Err(format!("{} has another value at {}", graph.value(*id).name, graph.nodes[at].name)),
        None => Ok(Found { op, operands, results, places, at }),
    }
}

/// Puts a fused op in the place of its nodes; returns its index.
fn replace(graph: &mut Graph, found: Found, reads: &mut Reads) -> Result<usize, String> {
    let Found { op, operands, results, places, at } = found;
    let name = places.iter().map(|place| graph.nodes[*place].name.as_str()).collect::<Vec<_>>().join(" + ");
    let mut ids = Vec::with_capacity(operands.len());
    for (id, shape) in operands {
        let same = graph.value(id).shape == shape;
        ids.push(if same { id } else { graph.view(&name, graph.viewed(id), shape) });
    }
    let made = graph.add(&name, op, &ids).map_err(|error| error.to_string())?;
    // Readers and outputs keep their ids.
    made.iter().zip(&results).for_each(|(made, result)| graph.values[made.0].source = Source::View(*result));
    let Some(node) = graph.nodes.pop() else { return Err("a node is not there".into()) };
    for place in places {
        reads.remove(graph, &graph.nodes[place]);
        // It stays as an empty place, so that the others keep theirs.
        let Node { operands, results, scratch, .. } = &mut graph.nodes[place];
        operands.clear();
        results.clear();
        scratch.clear();
    }
    graph.put_node(at, Node { results, ..node });
    reads.add(graph, &graph.nodes[at]);
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::ops::{Activation, ActivationKind, Dim, LayerNorm};

    const NORM: Pattern = Pattern { label: "a norm", fits: |op| matches!(op, Op::LayerNorm(_)), of: &[], kept: None };
    const SUM: Pattern = Pattern { label: "a sum", fits: |op| matches!(op, Op::Binary(_)), of: &[NORM], kept: None };
    const LAST: Pattern = Pattern { label: "gelu", fits: |op| matches!(op, Op::Activation(_)), of: &[SUM], kept: None };

    #[test]
    fn a_chain_of_three_is_found_with_its_operands() {
        let mut graph = Graph::new();
        let [x, other] = ["x", "other"].map(|name| graph.input(name, Shape::matrix(Dim::Tokens, 8), DType::F32));
        let [gain, bias] = ["gain", "bias"].map(|name| graph.weight(vec![name.into()], Shape::fixed(&[8])));
        let norm = graph.node("norm", LayerNorm { eps: 1e-5 }, &[x, gain, bias]).unwrap();
        let sum = graph.node("sum", Binary::from(BinaryKind::Add), &[other, norm]).unwrap();
        let heads = graph.view("heads", sum, Shape(vec![Dim::Tokens, Dim::Fixed(2), Dim::Fixed(4)]));
        let y = graph.node("gelu", Activation::from(ActivationKind::GeluErf), &[heads]).unwrap();
        let seen = graph.value(y).shape.clone();
        let found = steps((&graph, &graph.reads()), &LAST, 2, vec![heads], &seen).unwrap();
        assert_eq!(found.nodes, [(0, vec![x, gain, bias]), (1, vec![norm, other]), (2, vec![heads])]);
        // Rows go through all three, so that the last one's shape is also that of the first one's operand.
        let read: Vec<_> = found.reads.iter().map(|(id, shape)| (*id, shape.0.len())).collect();
        assert_eq!(read, [(x, 3), (gain, 1), (bias, 1), (other, 2)]);
        graph.outputs = vec![y, norm];
        let reason = steps((&graph, &graph.reads()), &LAST, 2, vec![heads], &seen).err();
        assert_eq!(reason, Some("the result of norm is read elsewhere too".into()));
    }
}
