//! One op on arrays: its graph, what it must not be given, and its result.

use std::sync::Arc;

use super::{Array, ElementType, Engine};
use crate::backend::Memory;
use crate::graph::{DType, Graph, Plan, ValueId};
use crate::ops::{Cast, CastTo, Counts, Dim, Op, Shape};
use crate::{Error, Result};

/// Runs `op`; all operands live on `engine`.
pub(super) fn run(engine: &Arc<Engine>, op: &Op, operands: &[&Array]) -> Result<Array> {
    check_indices(op, operands)?;
    let mut counts = Counts::default();
    let mut graph = Graph::new();
    let mut values = Vec::with_capacity(operands.len());
    for (place, operand) in operands.iter().enumerate() {
        let shape = shape_of(op, place, operand, &mut counts);
        values.push(given(&mut graph, place, shape, operand.dtype, op)?);
    }
    let mut result = node(&mut graph, op, &values)?;
    let half = match op {
        Op::Cast(cast) => cast.to == CastTo::F16,
        _ => operands.first().is_some_and(|x| x.dtype == ElementType::F16),
    };
    if half && !matches!(op, Op::Cast(_)) {
        result = graph.node("to float16", Cast { to: CastTo::F16 }, &[result])?;
    }
    graph.outputs = vec![result];
    let shape: Vec<usize> = graph.value(result).shape.0.iter().map(|dim| dim.size(counts)).collect();
    let dtype = if half { ElementType::F16 } else { ElementType::F32 };
    let empty = super::elements(&shape)? == 0;
    let memory = if empty {
        Memory::empty()
    } else {
        let inputs: Vec<&Memory> = operands.iter().map(|a| &a.memory).collect();
        engine.backend.run(&Plan::new(graph), counts, &inputs)?
    };
    Ok(Array { engine: engine.clone(), memory, shape, dtype, bounds: None })
}

/// The op's node, or those of its steps.
fn node(graph: &mut Graph, op: &Op, values: &[ValueId]) -> Result<ValueId> {
    let shapes: Vec<Shape> = values.iter().map(|id| graph.value(*id).shape.clone()).collect();
    let shapes: Vec<&Shape> = shapes.iter().collect();
    op.infer(&shapes)?;
    let Some(steps) = op.steps(&shapes) else { return graph.node(op.name(), op.clone(), values) };
    let mut operands = values.to_vec();
    for step in steps {
        operands = vec![graph.node(op.name(), step, &operands)?];
    }
    Ok(operands[0])
}

/// Packed ops count their rows by the batch: there the first axes are tokens and boundaries.
fn shape_of(op: &Op, place: usize, operand: &Array, counts: &mut Counts) -> Shape {
    let mut shape = Shape::fixed(&operand.shape);
    let packed = match op {
        Op::Attention(_) => [Some(0), Some(3)],
        Op::Pool(_) => [Some(0), Some(1)],
        _ => [None, None],
    };
    if let Some(rows) = operand.shape.first() {
        if packed[0] == Some(place) {
            counts.tokens = *rows;
            shape.0[0] = Dim::Tokens;
        } else if packed[1] == Some(place) {
            counts.texts = rows.saturating_sub(1);
            shape.0[0] = Dim::Boundaries;
        } else if matches!(op, Op::Attention(_)) && place == 4 {
            shape.0[0] = Dim::Boundaries;
        } else if matches!(op, Op::Pool(_)) && place == 2 {
            shape.0[0] = Dim::Texts;
        }
    }
    shape
}

/// An input, followed by a cast where the op wants float32 and is given something narrower.
fn given(graph: &mut Graph, place: usize, shape: Shape, dtype: ElementType, op: &Op) -> Result<ValueId> {
    let name = format!("operand {place}");
    let stored = match dtype {
        ElementType::F32 => DType::F32,
        ElementType::F16 => DType::F16,
        ElementType::I32 => DType::U32,
    };
    let value = graph.input(&name, shape, stored);
    match stored {
        DType::F16 if !matches!(op, Op::Cast(_)) => graph.node("to float32", Cast { to: CastTo::F32 }, &[value]),
        _ => Ok(value),
    }
}

/// Integers where the op wants them and nowhere else; ids inside their table.
fn check_indices(op: &Op, operands: &[&Array]) -> Result<()> {
    for (place, operand) in operands.iter().enumerate() {
        let wanted = op.is_index(place, operands.len());
        if wanted != (operand.dtype == ElementType::I32) && !matches!(op, Op::Cast(_)) {
            let expected = if wanted { "int32" } else { "float32 or float16" };
            return Err(Error::InvalidType(format!(
                "{}: operand {place} is {}, expected {expected}",
                op.name(),
                operand.dtype.name()
            )));
        }
    }
    let shapes: Vec<Shape> = operands.iter().map(|a| Shape::fixed(&a.shape)).collect();
    for (ids, rows) in op.index_limits(&shapes.iter().collect::<Vec<_>>()) {
        if let Some((least, most)) = operands[ids].bounds
            && (least < op.least_index(ids) || i64::from(most) >= rows as i64)
        {
            let wrong = if least < op.least_index(ids) { least } else { most };
            return Err(Error::IndexOutOfRange(format!("{}: index {wrong} is not in 0..{rows}", op.name())));
        }
    }
    Ok(())
}
