//! What a kernel sees of the batch it runs in: its operands, wherever they live, and who works on it.

use std::borrow::Cow;

use super::constants::Constants;
use super::simd::Arch;
use super::threads::Team;
use super::written::Written;
use crate::graph::{Plan, Source, Storage, ValueId};
use crate::ops::{Counts, Shape};
use crate::tensor::Part;
use crate::{Error, Result};

/// An input of the batch, aligned.
pub enum Given<'a> {
    /// `DType::F32`
    Floats(Cow<'a, [f32]>),
    /// Integers of any width, four bytes at a time.
    Indices(Cow<'a, [u32]>),
}

/// The view of one batch, or of some texts of it.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// What runs.
    pub plan: &'a Plan,
    /// Instruction set.
    pub arch: Arch,
    /// Who works.
    pub team: Team,
    /// Sizes.
    pub counts: Counts,
    /// The weights.
    pub constants: &'a Constants,
    /// The inputs, in the graph's order.
    pub inputs: &'a [Given<'a>],
    /// What steps have written; the step's own results are not in it.
    pub written: &'a Written,
}

impl<'a> Step<'a> {
    /// Axes of a value.
    pub fn shape(&self, id: ValueId) -> &'a Shape {
        &self.plan.graph.value(id).shape
    }

    fn wrong(&self, id: ValueId, expected: &str) -> Error {
        Error::InvalidArgument(format!("{}: expected {expected}", self.plan.graph.value(id).name))
    }

    /// The floats of a value, rows one after the other.
    ///
    /// # Errors
    /// `InvalidArgument` when it is not made of floats.
    pub fn floats(&self, id: ValueId) -> Result<&'a [f32]> {
        let elements = self.shape(id).elements(self.counts);
        let all: &[f32] = match self.plan.storage[id.0] {
            Storage::Input(place) => match &self.inputs[place] {
                Given::Floats(floats) => floats,
                Given::Indices(_) => return Err(self.wrong(id, "float32")),
            },
            Storage::Weight => self.constants.floats(id).ok_or_else(|| self.wrong(id, "a weight of floats"))?,
            Storage::Buffer(buffer) => &self.written.buffers[buffer],
            Storage::State(state) => &self.written.states[state],
        };
        all.get(..elements).ok_or_else(|| self.wrong(id, &format!("{elements} elements")))
    }

    /// The indices of a value.
    ///
    /// # Errors
    /// `InvalidArgument` when it is not an input of u32.
    pub fn indices(&self, id: ValueId) -> Result<&'a [u32]> {
        match self.plan.storage[id.0] {
            Storage::Input(place) => match &self.inputs[place] {
                Given::Indices(indices) => Ok(indices),
                Given::Floats(_) => Err(self.wrong(id, "uint32")),
            },
            _ => Err(self.wrong(id, "an input of uint32")),
        }
    }

    /// An input's words, whatever they hold, or a computed value's.
    ///
    /// # Errors
    /// `InvalidArgument` when it is a weight.
    pub fn words(&self, id: ValueId) -> Result<&'a [u32]> {
        match self.plan.storage[id.0] {
            Storage::Input(place) => Ok(match &self.inputs[place] {
                Given::Floats(floats) => bytemuck::cast_slice(floats),
                Given::Indices(indices) => indices,
            }),
            Storage::Buffer(buffer) => Ok(bytemuck::cast_slice(&self.written.buffers[buffer])),
            Storage::State(state) => Ok(bytemuck::cast_slice(&self.written.states[state])),
            Storage::Weight => Err(self.wrong(id, "an input")),
        }
    }

    /// A constant's tensors; `None` when the value is no constant.
    pub fn parts(&self, id: ValueId) -> Option<&'a [Part]> {
        match &self.plan.graph.value(id).source {
            Source::Weight(weight) => Some(&weight.parts),
            _ => None,
        }
    }
}
