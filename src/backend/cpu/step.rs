//! What a kernel sees of the batch it runs in: its operands, wherever they live, and who works on it.

use std::borrow::Cow;

use super::constants::Constants;
use super::simd::Arch;
use super::threads::Team;
use super::written::Written;
use crate::dtype::DType;
use crate::graph::{Plan, Source, Storage, Value, ValueId};
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
    /// What the step reads; everything below names them by place.
    pub operands: &'a [ValueId],
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
    fn value(&self, place: usize) -> &'a Value {
        self.plan.graph.value(self.operands[place])
    }

    fn storage(&self, place: usize) -> Storage {
        self.plan.storage[self.operands[place].0]
    }

    /// Whether there is an operand of this place.
    pub fn given(&self, place: usize) -> bool {
        place < self.operands.len()
    }

    /// Axes of an operand.
    pub fn shape(&self, place: usize) -> &'a Shape {
        &self.value(place).shape
    }

    /// Element type of an operand.
    pub fn dtype(&self, place: usize) -> DType {
        self.value(place).dtype
    }

    fn wrong(&self, place: usize, expected: &str) -> Error {
        Error::InvalidArgument(format!("{}: expected {expected}", self.value(place).name))
    }

    /// The floats of an operand, rows one after the other.
    ///
    /// # Errors
    /// `InvalidArgument` when it is not made of floats.
    pub fn floats(&self, place: usize) -> Result<&'a [f32]> {
        let elements = self.shape(place).elements(self.counts);
        let all: &[f32] = match self.storage(place) {
            Storage::Input(input) => match &self.inputs[input] {
                Given::Floats(floats) => floats,
                Given::Indices(_) => return Err(self.wrong(place, "float32")),
            },
            Storage::Weight => {
                self.constants.floats(self.operands[place]).ok_or_else(|| self.wrong(place, "a weight of floats"))?
            }
            Storage::Buffer(buffer) => &self.written.buffers[buffer],
            Storage::State(state) => &self.written.states[state],
        };
        all.get(..elements).ok_or_else(|| self.wrong(place, &format!("{elements} elements")))
    }

    /// The indices of an operand.
    ///
    /// # Errors
    /// `InvalidArgument` when it is not an input of u32.
    pub fn indices(&self, place: usize) -> Result<&'a [u32]> {
        match self.storage(place) {
            Storage::Input(input) => match &self.inputs[input] {
                Given::Indices(indices) => Ok(indices),
                Given::Floats(_) => Err(self.wrong(place, "uint32")),
            },
            _ => Err(self.wrong(place, "an input of uint32")),
        }
    }

    /// An input's words, whatever they hold, or a computed value's.
    ///
    /// # Errors
    /// `InvalidArgument` when it is a weight.
    pub fn words(&self, place: usize) -> Result<&'a [u32]> {
        match self.storage(place) {
            Storage::Input(input) => Ok(match &self.inputs[input] {
                Given::Floats(floats) => bytemuck::cast_slice(floats),
                Given::Indices(indices) => indices,
            }),
            Storage::Buffer(buffer) => Ok(bytemuck::cast_slice(&self.written.buffers[buffer])),
            Storage::State(state) => Ok(bytemuck::cast_slice(&self.written.states[state])),
            Storage::Weight => Err(self.wrong(place, "an input")),
        }
    }

    /// A constant's tensors; `None` when the operand is no constant.
    pub fn parts(&self, place: usize) -> Option<&'a [Part]> {
        match &self.value(place).source {
            Source::Weight(weight) => Some(&weight.parts),
            _ => None,
        }
    }
}
