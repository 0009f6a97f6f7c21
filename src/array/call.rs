//! One op on arrays: its graph, what it must not be given, and its result.

use std::sync::Arc;

use super::calls::Call;
use super::{Array, Engine};
use crate::backend::Memory;
use crate::dtype::DType;
use crate::graph::fuse::Fusion;
use crate::graph::{Graph, Plan, ValueId};
use crate::ops::signature::Role;
use crate::ops::{Cast, Counts, Dim, Op, Shape};
use crate::{Error, Result};

/// Runs `op`; all operands live on `engine`.
pub(super) fn run(engine: &Arc<Engine>, architecture: &str, op: &Op, operands: &[&Array]) -> Result<Array> {
    check_indices(op, operands)?;
    check_offsets(op, operands)?;
    let call = engine.calls.get(architecture, op, operands, || prepare(engine, architecture, op, operands))?;
    let memory = match &call.prepared {
        None => Memory::empty(),
        Some(prepared) => {
            let inputs: Vec<&Memory> = operands.iter().map(|a| &a.memory).collect();
            engine.backend.run(prepared, &inputs)?
        }
    };
    Ok(Array {
        engine: engine.clone(),
        memory,
        shape: call.shape.clone(),
        dtype: call.dtype,
        bounds: None,
        falls: false,
    })
}

/// How float16 operands reach the op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halves {
    /// As they are, where kernels have a form for them.
    Kept,
    /// In float32.
    Widened,
}

/// The call in 16 bits where the device has a kernel that takes all it is given so, and else in float32.
fn prepare(engine: &Engine, architecture: &str, op: &Op, operands: &[&Array]) -> Result<Call> {
    let mut call = Call::new(architecture, op, operands);
    let mut ready = |halves: Halves| -> Result<()> {
        let (graph, counts) = graph(&mut call, op, operands, halves)?;
        if super::elements(&call.shape)? > 0 {
            let fusion = Fusion { architecture, ..Fusion::default() };
            call.prepared = Some(engine.backend.prepare(Plan::with(graph, &fusion), counts)?);
        }
        Ok(())
    };
    let first_is_half = operands.first().is_some_and(|x| x.dtype == DType::F16) && op.operand(0).narrow;
    if matches!(op, Op::Cast(_)) {
        ready(Halves::Kept)?;
    } else if first_is_half && operands.iter().all(|x| x.elements() > 0) {
        match ready(Halves::Kept) {
            Err(Error::Unsupported { .. }) => ready(Halves::Widened)?,
            made => made?,
        }
    } else {
        ready(Halves::Widened)?;
    }
    Ok(call)
}

/// The op on operands, with casts around it where they are to be widened; the call learns of its result.
fn graph(call: &mut Call, op: &Op, operands: &[&Array], halves: Halves) -> Result<(Graph, Counts)> {
    let mut counts = Counts::default();
    let mut graph = Graph::new();
    let mut values = Vec::with_capacity(operands.len());
    for (place, operand) in operands.iter().enumerate() {
        let shape = shape_of(op, place, &operand.shape, &mut counts);
        let kept = halves == Halves::Kept && op.operand(place).narrow;
        values.push(given(&mut graph, place, shape, operand, operand.dtype == DType::F16 && !kept)?);
    }
    let shapes: Vec<Shape> = values.iter().map(|id| graph.value(*id).shape.clone()).collect();
    let shapes: Vec<&Shape> = shapes.iter().collect();
    op.infer(&shapes)?;
    let mut result = node(&mut graph, op, &shapes, &values)?;
    let half = match op {
        Op::Cast(cast) => cast.to == DType::F16,
        _ => operands.first().is_some_and(|x| x.dtype == DType::F16),
    };
    call.shape = graph.value(result).shape.0.iter().map(|dim| dim.size(counts)).collect();
    call.dtype = if half { DType::F16 } else { DType::F32 };
    if half && graph.value(result).dtype != DType::F16 {
        graph.values[result.0].shape = Shape::fixed(&call.shape);
        result = graph.node("to float16", Cast { to: DType::F16 }, &[result])?;
    }
    graph.outputs = vec![result];
    Ok((graph, counts))
}

/// The op's node, or those of its steps.
fn node(graph: &mut Graph, op: &Op, shapes: &[&Shape], values: &[ValueId]) -> Result<ValueId> {
    let Some(steps) = op.steps(shapes) else { return graph.node(op.name(), op.clone(), values) };
    let mut operands = values.to_vec();
    for step in steps {
        operands = vec![graph.node(op.name(), step, &operands)?];
    }
    Ok(operands[0])
}

/// Packed ops count their rows by the batch: there the first axes are tokens, texts and boundaries.
fn shape_of(op: &Op, place: usize, axes: &[usize], counts: &mut Counts) -> Shape {
    let mut shape = Shape::fixed(axes);
    let Some(rows) = axes.first().copied() else { return shape };
    let dim = match (op, place) {
        (Op::Attention(_) | Op::Pool(_), 0) => {
            counts.tokens = rows;
            Dim::Tokens
        }
        (Op::Attention(_), 3) | (Op::Pool(_), 1) => {
            counts.texts = rows.saturating_sub(1);
            Dim::Boundaries
        }
        // Keys and values are the queries' tokens, or others of their own.
        (Op::Attention(_), 1 | 2) if rows == counts.tokens => Dim::Tokens,
        (Op::Attention(_), 4) if rows == counts.texts + 1 => Dim::Boundaries,
        (Op::Pool(_), 2) => Dim::Texts,
        _ => return shape,
    };
    shape.0[0] = dim;
    shape
}

/// Offsets lead from the first row to behind the last, text after text.
fn check_offsets(op: &Op, operands: &[&Array]) -> Result<()> {
    let (Op::Attention(op), [q, k, _, q_offsets, kv_offsets, ..]) = (op, operands) else { return Ok(()) };
    let texts = q_offsets.elements().saturating_sub(1);
    if op.shared_by == 0 || !texts.is_multiple_of(op.shared_by) {
        return Err(Error::InvalidArgument(format!("attention: {texts} texts are no multiple of {}", op.shared_by)));
    }
    for (name, offsets, rows, count) in
        [("q_offsets", q_offsets, q, texts), ("kv_offsets", kv_offsets, k, texts / op.shared_by)]
    {
        let rows = rows.shape.first().copied().unwrap_or(0);
        if offsets.shape != [count + 1] {
            return Err(Error::InvalidArgument(format!(
                "attention: {name} has shape {:?}, expected [{}], one more than there are texts",
                offsets.shape,
                count + 1
            )));
        }
        if offsets.falls || offsets.bounds.unwrap_or((0, -1)) != (0, rows as i64) {
            return Err(Error::InvalidArgument(format!("attention: {name} does not rise from 0 to {rows}")));
        }
    }
    Ok(())
}

/// An input, followed by a cast to float32 if it is to be widened.
fn given(graph: &mut Graph, place: usize, shape: Shape, operand: &Array, widen: bool) -> Result<ValueId> {
    let name = format!("operand {place}");
    if !widen {
        return Ok(graph.input(&name, shape, operand.dtype));
    }
    // A cast counts elements, whatever the op counts them by.
    let value = graph.input(&name, Shape::fixed(&operand.shape), operand.dtype);
    let cast = graph.node("to float32", Cast { to: DType::F32 }, &[value])?;
    graph.values[cast.0].shape = shape;
    Ok(cast)
}

/// An op alone on operands of these types and axes, all stored as they are given, and what the batch counts there.
///
/// # Errors
/// `InvalidArgument` for operands that do not fit the op.
#[cfg(feature = "vulkan")]
pub(crate) fn op_graph(op: &Op, operands: &[(DType, Vec<usize>)]) -> Result<(Graph, Counts)> {
    let (mut graph, mut counts, mut values) = (Graph::new(), Counts::default(), Vec::new());
    for (place, (dtype, axes)) in operands.iter().enumerate() {
        let shape = shape_of(op, place, axes, &mut counts);
        values.push(graph.input(&format!("operand {place}"), shape, *dtype));
    }
    graph.outputs = vec![graph.node(op.name(), op.clone(), &values)?];
    Ok((graph, counts))
}

/// Integers where the op wants them and nowhere else; ids inside their table, offsets that never decrease.
fn check_indices(op: &Op, operands: &[&Array]) -> Result<()> {
    if matches!(op, Op::Cast(_)) {
        return Ok(());
    }
    for (place, array) in operands.iter().enumerate() {
        let operand = op.operand(place);
        operand.check_type(op.name(), array.dtype)?;
        let Some((least, most)) = array.bounds else { continue };
        let shape_of = |name: &str| Some(Shape::fixed(&operands.get(op.place_of(name, place)?)?.shape));
        let Some((first, end)) = operand.limits(shape_of) else { continue };
        if array.falls && matches!(operand.role, Role::Offsets { .. }) {
            let (name, rows) = (operand.name, end - 1);
            return Err(Error::InvalidArgument(format!("{}: {name} does not rise from 0 to {rows}", op.name())));
        }
        if least < first || most >= end {
            let wrong = if least < first { least } else { most };
            return Err(Error::IndexOutOfRange(format!("{}: index {wrong} is not in 0..{end}", op.name())));
        }
    }
    Ok(())
}
