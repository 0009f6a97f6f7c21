//! The batch as a kernel reads it: its operands, in whatever storage, and the threads to use.

use std::borrow::Cow;

use super::constants::Constants;
use super::simd::Arch;
use super::threads::Team;
use super::written::Written;
use crate::dtype::DType;
use crate::exit::Request;
use crate::graph::{Plan, Source, Storage, Value, ValueId};
use crate::ops::{Counts, Shape};
use crate::tensor::Part;
use crate::{Error, Result};

/// A view of one batch, or of some of its texts.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The instruction set.
    pub arch: Arch,
    /// The threads to use.
    pub team: Team,
    /// The step's operands; the methods below refer to them by position.
    pub operands: &'a [ValueId],
    /// The sizes of the batch.
    pub counts: Counts,
    /// The weights.
    pub constants: &'a Constants,
    /// The inputs, in the graph's order, aligned: floats, or the bytes of other types four at a time.
    pub inputs: &'a [Cow<'a, [f32]>],
    /// Values that steps have written, without this step's own results.
    pub written: &'a Written,
}

impl<'a> Step<'a> {
    fn value(&self, place: usize) -> &'a Value {
        self.plan.graph.value(self.operands[place])
    }

    fn storage(&self, place: usize) -> Storage {
        self.plan.storage[self.operands[place].0]
    }

    /// Whether there is an operand at this position.
    pub fn given(&self, place: usize) -> bool {
        place < self.operands.len()
    }

    /// The axes of an operand.
    pub fn shape(&self, place: usize) -> &'a Shape {
        &self.value(place).shape
    }

    /// The element type of an operand.
    pub fn dtype(&self, place: usize) -> DType {
        self.value(place).dtype
    }

    /// The rows of a result, to be divided among the threads in pieces of at least `least` rows.
    pub fn rows<'b>(&self, out: &'b mut [f32], columns: usize, least: usize) -> SharedRows<'b> {
        SharedRows { arch: self.arch, team: self.team, out, columns, least }
    }

    fn wrong(&self, place: usize, expected: &str) -> Error {
        Error::InvalidArgument(format!("{}: expected {expected}", self.value(place).name))
    }

    /// The memory of an operand, floats or the words of another type; `None` of a weight.
    fn memory(&self, place: usize) -> Option<&'a [f32]> {
        let all: &[f32] = match self.storage(place) {
            Storage::Input(input) => &self.inputs[input],
            Storage::Buffer(buffer) => &self.written.buffers[buffer],
            Storage::State(state) => &self.written.states[state],
            Storage::Weight => return None,
        };
        // Where a value is a part of a buffer, it begins there.
        all.get(self.plan.offsets[self.operands[place].0] / 4..)
    }

    /// The floats of an operand, in row order.
    ///
    /// # Errors
    /// `InvalidArgument` when its elements are not floats.
    pub fn floats(&self, place: usize) -> Result<&'a [f32]> {
        let elements = self.shape(place).elements(self.counts);
        let all = match self.storage(place) {
            Storage::Input(_) if !self.dtype(place).is_float() => return Err(self.wrong(place, "float32")),
            Storage::Weight => self.constants.floats(self.operands[place]),
            _ => self.memory(place),
        };
        let all = all.ok_or_else(|| self.wrong(place, "a weight of floats"))?;
        all.get(..elements).ok_or_else(|| self.wrong(place, &format!("{elements} elements")))
    }

    /// The indices of an operand, an input or computed ones.
    ///
    /// # Errors
    /// `InvalidArgument` when its elements are not integers.
    pub fn indices(&self, place: usize) -> Result<&'a [u32]> {
        if !self.dtype(place).is_index() {
            return Err(self.wrong(place, "uint32"));
        }
        Ok(&self.words(place)?[..self.shape(place).elements(self.counts)])
    }

    /// The words of an input of any type, or of a computed value.
    ///
    /// # Errors
    /// `InvalidArgument` when it is a weight.
    pub fn words(&self, place: usize) -> Result<&'a [u32]> {
        self.memory(place).map(bytemuck::cast_slice).ok_or_else(|| self.wrong(place, "an input"))
    }

    /// A constant's tensors; `None` when the operand is not a constant.
    pub fn parts(&self, place: usize) -> Option<&'a [Part]> {
        match &self.value(place).source {
            Source::Weight(weight) => Some(&weight.parts),
            _ => None,
        }
    }
}

/// Elements that are computed without a look for a request to stop.
const FEW: usize = 1 << 14;

/// Rows that the threads divide among themselves.
pub struct SharedRows<'a> {
    arch: Arch,
    team: Team,
    out: &'a mut [f32],
    columns: usize,
    least: usize,
}

impl SharedRows<'_> {
    /// Passes each piece to `work` with the index of its first row, as [`Team::rows`] does, compiled for the instruction
    /// set. `work` must be an `inlined!` closure, and everything it calls `#[inline(always)]`.
    pub fn vectorized(self, work: impl Fn(usize, &mut [f32]) + Sync) {
        self.team.rows(self.out, self.columns, self.least, |first, part| {
            self.arch.vectorized(inlined!(|| work(first, part)));
        });
    }

    /// As [`SharedRows::vectorized`], row by row: passes each to `work` with its index.
    pub fn each(self, work: impl Fn(usize, &mut [f32]) + Sync) {
        // Short work ends by itself.
        let (columns, request) = (self.columns, (self.out.len() > FEW).then(Request::current));
        self.vectorized(inlined!(|first, part| {
            for (row, y) in (first..).zip(part.chunks_exact_mut(columns)) {
                // The step's results are then of no use, and nothing reads them.
                if request.as_ref().is_some_and(Request::made) {
                    return;
                }
                work(row, y);
            }
        }));
    }
}
