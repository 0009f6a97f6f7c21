//! A call of one op on arrays: its graph, the checks of its operands, and its results.

use std::sync::Arc;

use super::calls::{Call, Hashed};
use super::ready::{Read, Ready};
use super::{Array, Engine};
use crate::backend::Narrow;
use crate::dtype::DType;
use crate::graph::fuse::Fusion;
use crate::graph::{Graph, Plan};
use crate::numerics::Numerics;
use crate::ops::signature::Role;
use crate::ops::{Cast, Counts, Dim, Op, Operand, Shape};
use crate::{Error, Result};

/// How a call runs.
#[derive(Debug, Clone, Copy)]
pub struct Way<'a> {
    /// The architecture whose registered shaders run; empty for the generic ones.
    pub architecture: &'a str,
    /// What its numbers mean; `None` for the process' choice.
    pub numerics: Option<Numerics>,
}

impl<'a> From<&'a str> for Way<'a> {
    fn from(architecture: &'a str) -> Self {
        Way { architecture, numerics: None }
    }
}

/// Runs `op`; all operands are on `engine`.
pub(super) fn run(engine: &Arc<Engine>, way: Way<'_>, op: &Hashed, operands: &[&Array]) -> Result<Vec<Array>> {
    let (shaders, architecture) = (engine.shaders(), way.architecture);
    let numerics = way.numerics.unwrap_or(shaders.numerics);
    let fusion = Fusion { architecture, shaders: &shaders, numerics, ..Fusion::default() };
    let call = engine.calls.get(&fusion, op, operands, || prepare(engine, &fusion, op.op(), operands))?;
    call.ready.run(engine, operands, &mut [])
}

/// How float16 operands are passed to the op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halves {
    /// As float16, where kernels have a form for it.
    Kept,
    /// Cast to float32.
    Widened,
}

/// Prepares the call in 16 bits if the device has a kernel for these operands, else in float32.
fn prepare(engine: &Engine, fusion: &Fusion<'_>, op: &Op, operands: &[&Array]) -> Result<Call> {
    op.check_number(operands.len())?;
    let ready = |halves: Halves| -> Result<Ready> {
        let mut ready = Ready { reads: reads(op, operands), ..Ready::default() };
        let (graph, counts) = graph(&mut ready.outputs, op, operands, halves)?;
        let mut empty = true;
        for (shape, _) in &ready.outputs {
            empty &= super::elements(shape)? == 0;
        }
        if !empty {
            ready.prepared = Some(engine.backend.prepare(Plan::with(graph, fusion)?, counts, Narrow::OnMatrixCores)?);
        }
        Ok(ready)
    };
    let first_is_half = operands[0].dtype == DType::F16 && op.operand(0).narrow;
    let converts = op.operand(0).role == Role::Any;
    let kept = converts || first_is_half && operands.iter().all(|x| x.elements() > 0);
    let ready = match ready(if kept { Halves::Kept } else { Halves::Widened }) {
        Err(Error::Unsupported { .. }) if kept && !converts => ready(Halves::Widened)?,
        made => made?,
    };
    Ok(Call::new(fusion, op, operands, ready))
}

/// The graph of the op, with casts around it for widened operands; appends the results' shapes and types to `outputs`.
fn graph(
    outputs: &mut Vec<(Vec<usize>, DType)>,
    op: &Op,
    operands: &[&Array],
    halves: Halves,
) -> Result<(Graph, Counts)> {
    let mut counted = Counted::default();
    let mut graph = Graph::new();
    let mut values = Vec::with_capacity(operands.len());
    for (place, array) in operands.iter().enumerate() {
        let operand = op.operand(place);
        operand.check_type(op.name(), array.dtype)?;
        let shape = counted.shape(operand, &array.shape);
        if array.dtype != DType::F16 || halves == Halves::Kept && operand.narrow {
            values.push(graph.input(operand.name, shape, array.dtype));
            continue;
        }
        // A cast works on elements, so its input has fixed axes however the op counts them.
        let value = graph.input(operand.name, Shape::fixed(&array.shape), array.dtype);
        let cast = graph.node("to float32", Cast { to: DType::F32 }, &[value])?;
        graph.retype(cast, shape, counted.counts())?;
        values.push(cast);
    }
    let counts = counted.counts();
    let values = graph.completed(op, &values);
    let shapes = graph.shapes(&values);
    let results = op.infer(&shapes)?;
    op.check_counts(&shapes, counts)?;
    // A result has the type of the first operand, except for ops that convert and results with a type of their own.
    let first = operands[0].dtype;
    let converts = op.operand(0).role == Role::Any;
    let made = if converts { op.result_type(&[first]) } else { first };
    if made == DType::Bf16 {
        return Err(Error::unsupported(
            op.name(),
            "arrays cannot be bfloat16; values between the ops of a program can",
        ));
    }
    let half = made == DType::F16;
    for (mut id, result) in graph.apply_inferred(op.name(), op.clone(), &values, results)?.into_iter().zip(op.results())
    {
        let shape = graph.value(id).shape.sizes(counts);
        let dtype = result.stored.unwrap_or(if half { DType::F16 } else { DType::F32 });
        if dtype == DType::F16 && graph.value(id).dtype != DType::F16 {
            graph.retype(id, Shape::fixed(&shape), counts)?;
            id = graph.node("to float16", Cast { to: DType::F16 }, &[id])?;
        }
        outputs.push((shape, dtype));
        graph.outputs.push(id);
    }
    Ok((graph, counts))
}

/// Counts of tokens and texts found in the operands so far.
#[derive(Default)]
pub(super) struct Counted {
    tokens: Option<usize>,
    texts: Option<usize>,
}

impl Counted {
    pub(super) fn counts(&self) -> Counts {
        Counts::new(self.tokens.unwrap_or(0), self.texts.unwrap_or(0))
    }

    /// The shape of an operand, with its first axis counted by the batch where the signature says so.
    pub(super) fn shape(&mut self, operand: &Operand, axes: &[usize]) -> Shape {
        let mut shape = Shape::fixed(axes);
        let (Some(dim), Some(rows)) = (operand.counted, axes.first().copied()) else { return shape };
        match dim {
            Dim::Tokens => _ = self.tokens.get_or_insert(rows),
            Dim::Texts => _ = self.texts.get_or_insert(rows),
            Dim::Boundaries => _ = self.texts.get_or_insert(rows.saturating_sub(1)),
            Dim::Fixed(_) | Dim::Length | Dim::Counted(_) | Dim::LengthOf(_) => {}
        }
        if dim.size(self.counts()) == rows {
            shape.0[0] = dim;
        }
        shape
    }
}

/// The shapes of the operands of a call, with axes counted by the batch where the op's signature says so, and the counts.
pub(super) fn shapes(op: &Op, operands: &[&Array]) -> (Vec<Shape>, Counts) {
    let mut counted = Counted::default();
    let shape = |(place, array): (usize, &&Array)| counted.shape(op.operand(place), &array.shape);
    let shapes = operands.iter().enumerate().map(shape).collect();
    (shapes, counted.counts())
}

/// The graph of a single op on operands of these types and axes, without casts, and the counts of the batch.
///
/// # Errors
/// `InvalidArgument` for operands that do not fit the op.
#[cfg(feature = "vulkan")]
pub(crate) fn op_graph(op: &Op, operands: &[(DType, Vec<usize>)]) -> Result<(Graph, Counts)> {
    let (mut graph, mut counted, mut values) = (Graph::new(), Counted::default(), Vec::new());
    for (place, (dtype, axes)) in operands.iter().enumerate() {
        let operand = op.operand(place);
        let shape = counted.shape(operand, axes);
        values.push(graph.input(operand.name, shape, *dtype));
    }
    graph.outputs = graph.apply(op.name(), op.clone(), &values)?;
    Ok((graph, counted.counts()))
}

/// The operands that hold integers; offsets must cover all rows where the op needs it.
fn reads(op: &Op, operands: &[&Array]) -> Vec<Read> {
    let shapes: Vec<Shape> = operands.iter().map(|array| Shape::fixed(&array.shape)).collect();
    let integers = (0..operands.len()).filter(|place| op.operand(*place).is_integer());
    integers.map(|place| Read { input: place, op: op.clone(), place, shapes: shapes.clone(), whole: true }).collect()
}
