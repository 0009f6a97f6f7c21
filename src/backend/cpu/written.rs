//! The memory that the steps of a plan write, and how a step runs in it.

use super::floats::Floats;
use super::kernels::{self, Memory};
use super::step::Step;
use crate::graph::{Node, Storage, ValueId};
use crate::{Error, Result};

/// A plan's buffers, and its states, which persist between runs.
#[derive(Default)]
pub struct Written {
    /// In the order of `Plan::buffers`.
    pub buffers: Vec<Floats>,
    /// In the order of `Graph::states`.
    pub states: Vec<Floats>,
    scratch: Floats,
}

impl Written {
    /// Nothing written: for a step that is not run yet.
    pub const NONE: &'static Written = &Written { buffers: Vec::new(), states: Vec::new(), scratch: Floats::EMPTY };

    /// Allocates memory for the batch of `step`, and runs the nodes of its plan whose numbers `needed` accepts.
    ///
    /// # Errors
    /// As [`kernels::run`].
    pub fn run(&mut self, step: Step<'_>, needed: impl Fn(usize) -> bool) -> Result<()> {
        self.buffers.resize_with(step.plan.buffers.len(), Floats::default);
        for (floats, buffer) in self.buffers.iter_mut().zip(&step.plan.buffers) {
            floats.resize(buffer.bytes(step.counts) / 4, "activations")?;
        }
        let mut nodes = step.plan.graph.nodes.iter().enumerate().filter(|(number, _)| needed(*number));
        nodes.try_for_each(|(_, node)| self.run_node(step, node))
    }

    fn memory(&mut self, storage: Storage) -> Option<&mut Floats> {
        match storage {
            Storage::Buffer(place) => self.buffers.get_mut(place),
            Storage::State(place) => self.states.get_mut(place),
            Storage::Input(_) | Storage::Weight => None,
        }
    }

    /// Runs a node, which reads this memory without its own results.
    fn run_node(&mut self, step: Step<'_>, node: &Node) -> Result<()> {
        let missing = || Error::InvalidArgument(format!("{}: its result has no memory", node.name));
        let storage = |id: &ValueId| step.plan.storage[id.0];
        let mut taken = Vec::with_capacity(node.results.len());
        for id in &node.results {
            taken.push(std::mem::take(self.memory(storage(id)).ok_or_else(missing)?));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let words = |id: &ValueId| step.plan.graph.value(*id).bytes(step.counts).div_ceil(4);
        let parts = taken.iter_mut().zip(&node.results).map(|(floats, id)| floats.get_mut(..words(id)));
        let done = match parts.collect::<Option<Vec<_>>>() {
            Some(mut results) => kernels::run(
                &Step { operands: &node.operands, written: self, ..step },
                &node.op,
                Memory { results: &mut results, scratch: &mut scratch },
            ),
            None => Err(missing()),
        };
        self.scratch = scratch;
        for (id, floats) in node.results.iter().zip(taken) {
            *self.memory(storage(id)).ok_or_else(missing)? = floats;
        }
        done
    }
}
