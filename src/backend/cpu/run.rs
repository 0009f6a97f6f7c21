//! How the steps of a plan run in the memory that they write.

use std::ops::Range;

use super::floats::Floats;
use super::kernels::{self, Memory};
use super::step::Step;
use super::written::Written;
use crate::graph::{Node, Storage, ValueId};
use crate::{Error, Result, exit};

impl Written {
    /// Allocates memory for the batch of `step`, and runs the nodes of its plan whose numbers `needed` accepts. A request to
    /// stop ends it before the first node that writes a state, so that states are all written or none.
    ///
    /// # Errors
    /// As [`kernels::run`], and `Interrupted`.
    pub fn run(&mut self, step: Step<'_>, needed: impl Fn(usize) -> bool) -> Result<()> {
        self.buffers.resize_with(step.plan.buffers.len(), Floats::default);
        for (floats, buffer) in self.buffers.iter_mut().zip(&step.plan.buffers) {
            floats.resize(buffer.bytes(step.counts) / 4, "activations")?;
        }
        let nodes = step.plan.graph.nodes.iter().enumerate().filter(|(number, _)| needed(*number));
        let (mut writes, mut first) = (false, true);
        for (_, node) in nodes {
            writes |= node.results.iter().any(|id| matches!(step.plan.storage[id.0], Storage::State(_)));
            if writes {
                exit::undivided(|| self.run_node(step, node))?;
            } else {
                // The calls on arrays of one node do not ask.
                if !std::mem::take(&mut first) {
                    exit::check()?;
                }
                self.run_node(step, node)?;
            }
            // Kernels leave out the rest of a step then.
            if exit::begun() || (!writes && exit::requested()) {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// Runs a node, which reads this memory without its own results.
    fn run_node(&mut self, step: Step<'_>, node: &Node) -> Result<()> {
        // Kernels divide by the columns of a row.
        if node.results.iter().all(|id| step.plan.graph.value(*id).bytes(step.counts) == 0) {
            return Ok(());
        }
        let missing = || Error::InvalidArgument(format!("{}: its result has no memory", node.name));
        let storage = |id: &ValueId| step.plan.storage[id.0];
        // Results may be parts of the same memory.
        let mut taken: Vec<(Storage, Floats)> = Vec::with_capacity(node.results.len());
        for place in node.results.iter().map(storage) {
            if taken.iter().all(|(known, _)| *known != place) {
                taken.push((place, std::mem::take(self.memory(place).ok_or_else(missing)?)));
            }
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let words = |id: &ValueId| {
            let first = step.plan.offsets[id.0] / 4;
            first..first + step.plan.graph.value(*id).bytes(step.counts).div_ceil(4)
        };
        let mut parts: Vec<(usize, &mut [f32])> = Vec::with_capacity(node.results.len());
        for (place, floats) in &mut taken {
            let own = node.results.iter().enumerate().filter(|(_, id)| storage(id) == *place);
            let mut own: Vec<(usize, Range<usize>)> = own.map(|(number, id)| (number, words(id))).collect();
            own.sort_by_key(|(_, words)| words.start);
            let (mut rest, mut first) = (&mut floats[..], 0);
            for (number, words) in own {
                let all = std::mem::take(&mut rest);
                let split = words.start.checked_sub(first).and_then(|before| all.split_at_mut_checked(before));
                let split = split.and_then(|(_, after)| after.split_at_mut_checked(words.len()));
                let (part, after) = split.unwrap_or_default();
                (rest, first) = (after, words.end);
                parts.extend((part.len() == words.len()).then_some((number, part)));
            }
        }
        parts.sort_by_key(|(number, _)| *number);
        let mut results: Vec<&mut [f32]> = parts.into_iter().map(|(_, part)| part).collect();
        let done = if results.len() == node.results.len() {
            kernels::run(
                &Step { operands: &node.operands, written: self, ..step },
                &node.op,
                Memory { results: &mut results, scratch: &mut scratch },
            )
        } else {
            Err(missing())
        };
        self.scratch = scratch;
        for (place, floats) in taken {
            *self.memory(place).ok_or_else(missing)? = floats;
        }
        done
    }
}
