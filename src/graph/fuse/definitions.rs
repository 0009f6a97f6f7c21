//! Replaces nodes that match the definition of a fused op by that op, if the op has a search pattern.
//!
//! The last step is the candidate; every other step feeds it. The fused op is built from the matched nodes, and its
//! definition must then equal them.

use super::{Attempt, Fusion};
use crate::dtype::DType;
use crate::graph::{Graph, Node, Source, ValueId};
use crate::ops::definition::{Origin, SUM, Sought, Term};
use crate::ops::{Linear, Op, Residual, Shape};

/// Tries the patterns that end with a node, until one of them fits.
pub(super) fn attempts(
    graph: &mut Graph,
    index: usize,
    fusion: &Fusion<'_>,
    sought: &[(&'static str, Sought)],
) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for (pass, row) in sought {
        if !row.steps.last().is_some_and(|(_, fits)| fits(&graph.nodes[index].op)) {
            continue;
        }
        // Parallel steps may occur in either order.
        let found = find(graph, index, (pass, row), fusion, Order::Given);
        let other = || find(graph, index, (pass, row), fusion, Order::Turned).ok();
        let found = found.or_else(|reason| other().filter(|_| row.steps.len() > 2).ok_or(reason));
        let done = found.and_then(|found| replace(graph, index, found));
        let fused = done.is_ok();
        attempts.push((*pass, done));
        if fused {
            break;
        }
    }
    attempts
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Given,
    Turned,
}

/// A fused op in a graph.
pub(super) struct Found {
    pub(super) op: Op,
    /// Its operands, each in the shape that the op takes.
    pub(super) operands: Vec<(ValueId, Shape)>,
    /// Indices of the nodes of its steps, the last step at the end.
    pub(super) places: Vec<usize>,
}

/// The steps of a pattern that end with node `index`, or the reason why it does not match.
fn find(
    graph: &Graph,
    index: usize,
    (pass, row): (&str, &Sought),
    fusion: &Fusion<'_>,
    order: Order,
) -> Result<Found, String> {
    let last = &graph.nodes[index];
    let before = row.steps.len() - 1;
    let mut fed: Vec<ValueId> = last.operands.iter().copied().take(before).collect();
    let rest = last.operands.iter().copied().skip(before);
    if order == Order::Turned {
        fed.reverse();
    }
    let last_operands: Vec<ValueId> = fed.iter().copied().chain(rest).collect();
    let mut places = Vec::new();
    for ((label, fits), id) in row.steps.iter().zip(&fed) {
        places.push(producer(graph, *id, label, *fits)?);
    }
    places.push(index);
    let steps: Vec<&Node> = places.iter().map(|place| &graph.nodes[*place]).collect();
    let ops: Vec<&Op> = steps.iter().map(|node| &node.op).collect();
    if let Some(reason) = steps.iter().find_map(|node| (fusion.apart)(&node.op, node.operands.len())) {
        return Err(reason);
    }
    let unlike = || format!("these are no steps of {pass}");
    let op = (row.op)(&ops).ok_or_else(unlike)?;
    // The inputs of the steps that none of the steps computes; parallel steps read the same rows.
    let mut operands: Vec<(ValueId, Shape)> = Vec::new();
    for (step, node) in steps.iter().enumerate() {
        let first = usize::from(step > 0 && step < before);
        let own = if step < before { &node.operands[first..] } else { &last_operands[before..] };
        operands.extend(own.iter().map(|id| (*id, graph.value(*id).shape.clone())));
    }
    // Where rows are normalised as a whole and then rotated per head, the fused op takes the shape with heads.
    if let (Some(x), Some(read)) = (operands.first_mut(), fed.first()) {
        let (made, read) = (graph.value(steps[0].results[0]), graph.value(*read));
        if x.1 == made.shape {
            x.1 = read.shape.clone();
        }
    }
    let stored = graph.value(last.results[0]).dtype;
    let types: Vec<DType> = operands.iter().map(|(id, _)| graph.value(*id).dtype).collect();
    op.check_types(&types, stored).map_err(|error| error.to_string())?;
    let shapes: Vec<&Shape> = operands.iter().map(|(_, shape)| shape).collect();
    let definition = op.definition(&shapes).map_err(|error| error.to_string())?;
    let is = |term: &Term, id: ValueId| {
        let (value, shape) = match term.from {
            Origin::Operand(place) => (operands[place].0, &operands[place].1),
            Origin::Step(place) => (steps[place].results[0], &graph.value(steps[place].results[0]).shape),
        };
        graph.viewed(value) == graph.viewed(id) && graph.value(id).shape == *term.shape.as_ref().unwrap_or(shape)
    };
    let same = definition.iter().zip(&steps).enumerate().all(|(place, (step, node))| {
        let given = if place == before { &last_operands } else { &node.operands };
        step.op == node.op
            && step.operands.len() == given.len()
            && step.operands.iter().zip(given).all(|(term, id)| is(term, *id))
    });
    if same { Ok(Found { op, operands, places }) } else { Err(unlike()) }
}

/// The node that computes a value; it must be a step of this kind with no other reader.
pub(super) fn producer(graph: &Graph, id: ValueId, label: &str, fits: fn(&Op) -> bool) -> Result<usize, String> {
    let id = graph.viewed(id);
    let Some((place, _)) = graph.producer(id) else {
        let kind = if matches!(graph.value(id).source, Source::Weight(_)) { "a weight" } else { "an input" };
        return Err(format!("it reads {kind}, not {label}"));
    };
    let node = &graph.nodes[place];
    match &node.op {
        op if fits(op) => {}
        Op::Linear(Linear { residual: Residual::Added, .. }) if label == SUM.0 => {
            return Err(format!("the sum rides on the product of {}", node.name));
        }
        op => return Err(format!("it reads {}, not {label}", op.name())),
    }
    if graph.uses(id) > 1 {
        return Err(format!("the result of {} is read elsewhere too", node.name));
    }
    Ok(place)
}

/// Replaces the last step by the op and removes the other steps; returns the op's new index.
pub(super) fn replace(graph: &mut Graph, index: usize, found: Found) -> Result<usize, String> {
    let Found { op, operands, mut places } = found;
    // The steps before the last now run later.
    let updated = |(id, _): &&(ValueId, Shape)| graph.updated_by(*id).is_some_and(|place| place < index);
    if let Some((id, _)) = operands.iter().find(updated) {
        return Err(format!("{} is updated before {}", graph.value(*id).name, graph.nodes[index].name));
    }
    let name = places.iter().map(|place| graph.nodes[*place].name.as_str()).collect::<Vec<_>>().join(" + ");
    let mut ids = Vec::with_capacity(operands.len());
    for (id, shape) in operands {
        let same = graph.value(id).shape == shape;
        ids.push(if same { id } else { graph.view(&name, graph.viewed(id), shape) });
    }
    let result = graph.add(&name, op, &ids).map_err(|error| error.to_string())?[0];
    let last = graph.nodes.swap_remove(index);
    // Readers and outputs keep their ids.
    graph.values[result.0].source = Source::View(last.results[0]);
    graph.nodes[index].results = last.results;
    places.pop();
    places.sort_unstable();
    places.iter().rev().for_each(|place| drop(graph.nodes.remove(*place)));
    Ok(index - places.len())
}

#[cfg(test)]
mod tests;
