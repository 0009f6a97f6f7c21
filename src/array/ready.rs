//! A plan prepared to run on arrays: the checks of its inputs, and its outputs. It is a call's, or a program's.

use std::sync::Arc;

use super::{Array, Engine};
use crate::backend::{Memory, Prepared};
use crate::dtype::DType;
use crate::graph::{Graph, Source, Value, ValueId};
use crate::ops::{Counts, Op, Shape};
use crate::{Error, Result};

/// A plan prepared for fixed counts.
#[derive(Default)]
pub(super) struct Ready {
    /// `None` if the outputs have no elements.
    pub(super) prepared: Option<Prepared>,
    /// What is expected of the inputs; empty where the caller knows that they fit.
    pub(super) inputs: Vec<Declared>,
    /// The inputs that nodes read as integers.
    pub(super) reads: Vec<Read>,
    /// Shapes and types of the outputs.
    pub(super) outputs: Vec<(Vec<usize>, DType)>,
}

impl Ready {
    /// The plan of a graph, prepared for these counts.
    pub(super) fn of(graph: &Graph, counts: Counts, prepared: Prepared) -> Self {
        let inputs = graph.inputs.iter().map(|id| Declared::of(graph.value(*id), counts)).collect();
        let outputs = graph.outputs.iter().map(|id| graph.value(*id));
        let outputs = outputs.map(|value| (value.shape.sizes(counts), value.dtype)).collect();
        Ready { prepared: Some(prepared), inputs, reads: reads(graph, counts), outputs }
    }

    /// Runs the plan and returns its outputs, whose computation may still be in flight.
    ///
    /// # Errors
    /// `InvalidArgument` or `InvalidType` for inputs that do not fit, or as `ArrayEngine::run`.
    pub(super) fn run(&self, engine: &Arc<Engine>, inputs: &[&Array], states: &mut [Memory]) -> Result<Vec<Array>> {
        self.inputs.iter().zip(inputs).try_for_each(|(input, array)| input.check(engine, array))?;
        self.reads.iter().try_for_each(|read| read.check(inputs[read.input]))?;
        let memories = match &self.prepared {
            None => vec![Memory::empty(); self.outputs.len()],
            Some(prepared) => {
                let inputs: Vec<&Memory> = inputs.iter().map(|array| &array.memory).collect();
                engine.backend.run(prepared, &inputs, states)?
            }
        };
        let outputs = memories.into_iter().zip(&self.outputs);
        Ok(outputs.map(|(memory, (shape, dtype))| Array::computed(engine, memory, shape.clone(), *dtype)).collect())
    }
}

/// Name, axes, their sizes and type of an input, a state or an output.
pub(super) struct Declared {
    name: String,
    axes: Shape,
    shape: Vec<usize>,
    dtype: DType,
}

impl Declared {
    pub(super) fn of(value: &Value, counts: Counts) -> Self {
        let (name, axes, shape) = (value.name.clone(), value.shape.clone(), value.shape.sizes(counts));
        Declared { name, axes, shape, dtype: value.dtype }
    }

    pub(super) fn check(&self, engine: &Arc<Engine>, array: &Array) -> Result<()> {
        engine.check_owns(array, &self.name)?;
        if array.dtype != self.dtype && !(array.dtype.is_index() && self.dtype.is_index()) {
            let (found, expected) = (array.dtype.name(), self.dtype.name());
            return Err(Error::InvalidType(format!("{} is {found}, expected {expected}", self.name)));
        }
        if array.shape != self.shape {
            let (name, found, expected) = (&self.name, &array.shape, &self.shape);
            let axes = if self.axes == Shape::fixed(expected) { String::new() } else { format!(" ({})", self.axes) };
            return Err(Error::InvalidArgument(format!("{name} has shape {found:?}, expected {expected:?}{axes}")));
        }
        Ok(())
    }
}

/// The integers of an array: the least and the largest, and whether one is less than its predecessor.
#[derive(Clone, Copy)]
pub(super) struct Integers {
    pub(super) bounds: (i64, i64),
    decrease: bool,
}

impl Integers {
    /// Those of an array that is not empty; `None` for other types.
    pub(super) fn of(dtype: DType, bytes: &[u8]) -> Option<Self> {
        if !dtype.is_index() || bytes.is_empty() {
            return None;
        }
        let mut decrease = false;
        let numbers = bytes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
        let numbers = numbers.map(|b| match dtype {
            DType::U32 => u32::from_le_bytes(b).into(),
            _ => i32::from_le_bytes(b).into(),
        });
        let bounds = numbers.fold((i64::MAX, i64::MIN), |(least, most), n: i64| {
            decrease |= n < most;
            (least.min(n), most.max(n))
        });
        Some(Integers { bounds, decrease })
    }
}

/// An input that a node reads as indices into other operands, with the shapes of these operands.
pub(super) struct Read {
    pub(super) input: usize,
    pub(super) op: Op,
    pub(super) place: usize,
    pub(super) shapes: Vec<Shape>,
    /// Whether offsets that must cover all rows are checked for it.
    pub(super) whole: bool,
}

impl Read {
    /// Checks that ids are inside their tables and that offsets never decrease.
    fn check(&self, array: &Array) -> Result<()> {
        let Some(Integers { bounds, decrease }) = array.integers else { return Ok(()) };
        let shape_of = |name: &str| self.shapes.get(self.op.place_of(name, self.place)?).cloned();
        let operand = self.op.operand(self.place);
        if self.whole {
            operand.check_whole(self.op.name(), bounds, shape_of)?;
        }
        operand.check_values(self.op.name(), bounds, decrease, shape_of)
    }
}

/// The inputs that nodes read as integers.
fn reads(graph: &Graph, counts: Counts) -> Vec<Read> {
    let at = |id: &ValueId| Shape::fixed(&graph.value(*id).shape.sizes(counts));
    let mut reads = Vec::new();
    for node in &graph.nodes {
        for (place, id) in node.operands.iter().enumerate() {
            let Source::Input(input) = graph.value(graph.viewed(*id)).source else { continue };
            if node.op.operand(place).is_integer() {
                let shapes = node.operands.iter().map(at).collect();
                reads.push(Read { input, op: node.op.clone(), place, shapes, whole: false });
            }
        }
    }
    reads
}
