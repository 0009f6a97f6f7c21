//! The constants among a node's operands, and its scratch memory.

use super::Lowering;
use crate::backend::vulkan::integers::{Form, Integers};
use crate::backend::vulkan::kernel::Range;
use crate::graph::Storage;

impl Lowering<'_> {
    /// The weight at a position as integers, their memory and that of their exponents and balance, if it is a constant of the
    /// plan, whole and in its own shape.
    pub fn integers(&self, place: usize, form: Form) -> Option<[Range; 2]> {
        let id = self.node.operands[place];
        let constant = self.plan.storage[id.0] == Storage::Weight;
        let whole = matches!(self.range(id), Range { offset: 0, bytes: None, .. });
        let id = self.plan.graph.viewed(id);
        let value = self.plan.graph.value(id);
        (constant && whole && value.shape == *self.shape(place)).then(|| Integers::of(value, form).ranges(id))
    }

    /// The node's scratch memory, in its order.
    pub fn all_scratch(&self) -> Vec<Range> {
        self.node.scratch.iter().map(|id| self.range(*id)).collect()
    }
}
