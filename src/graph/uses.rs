//! What computes a value, what reads it, which memory it has, and the work of nodes.

use std::collections::{HashMap, HashSet};

use super::{Graph, Node, Source, ValueId};
use crate::ops::{Counts, Work};

impl Graph {
    /// The value of which another has all elements: the source of a view, the operand that an update overwrote, or itself.
    pub fn viewed(&self, id: ValueId) -> ValueId {
        match self.value(id).source {
            Source::View(of) | Source::Update(of) => self.viewed(of),
            _ => id,
        }
    }

    /// The value that owns the memory of another: as [`Graph::viewed`], and of a slice that of the whole.
    pub fn owner(&self, id: ValueId) -> ValueId {
        match self.value(id).source {
            Source::View(of) | Source::Update(of) | Source::Slice(of, _) => self.owner(of),
            _ => id,
        }
    }

    /// The source of a view; any other value itself.
    pub(super) fn seen(&self, id: ValueId) -> ValueId {
        match self.value(id).source {
            Source::View(of) => self.seen(of),
            _ => id,
        }
    }

    /// The owner of a value, and if it is computed again, what that repeats.
    fn repeated(&self, id: ValueId) -> ValueId {
        let own = self.owner(id);
        self.again.get(&own).copied().unwrap_or(own)
    }

    /// How often nodes read each value.
    pub(super) fn reads(&self) -> Reads {
        let mut reads = Reads::default();
        self.nodes.iter().for_each(|node| reads.add(self, node));
        reads
    }

    /// The last step that computes or reads each value or a view of it; `usize::MAX` for outputs, which outlive all
    /// steps.
    pub fn last_uses(&self) -> Vec<usize> {
        let mut last = vec![0; self.values.len()];
        for (step, node) in self.nodes.iter().enumerate() {
            for value in node.operands.iter().chain(&node.results) {
                last[self.owner(*value).0] = step;
            }
        }
        for output in &self.outputs {
            last[self.owner(*output).0] = usize::MAX;
        }
        last
    }

    /// For each node, whether these values depend on it.
    pub(crate) fn needed_for<'a>(&self, values: impl Iterator<Item = &'a ValueId>) -> Vec<bool> {
        let mut needed: HashSet<ValueId> = values.map(|id| self.owner(*id)).collect();
        let mut steps = vec![false; self.nodes.len()];
        for (step, node) in self.nodes.iter().enumerate().rev() {
            if node.results.iter().any(|id| needed.contains(&self.owner(*id))) {
                steps[step] = true;
                needed.extend(node.operands.iter().map(|id| self.owner(*id)));
            }
        }
        steps
    }

    /// Drops the nodes that neither an output nor a state needs.
    pub(super) fn drop_unneeded(&mut self) {
        let mut needed = self.needed_for(self.outputs.iter().chain(&self.states)).into_iter();
        self.nodes.retain(|_| needed.next().unwrap_or(true));
    }

    /// Whether all texts of a run must have the same length.
    pub fn needs_one_length(&self) -> bool {
        !self.lengths.is_empty()
    }

    /// Floating-point operations of a batch.
    pub fn flops(&self, counts: Counts) -> u64 {
        self.nodes.iter().map(|node| node.op.flops(&self.shapes(&node.operands), counts)).sum()
    }

    /// Flops of a node, and the bytes of its operands and results, each read or written once, and of its scratch
    /// memory, written and read once.
    pub fn work(&self, node: &Node, counts: Counts) -> Work {
        let shapes = self.shapes(&node.operands);
        let mut values = [&node.operands[..], &node.results].concat();
        // A value that is an operand twice is read once.
        values.sort();
        values.dedup();
        let bytes = |id: &ValueId| self.value(*id).bytes(counts) as u64;
        let moved = values.iter().map(bytes).sum::<u64>() + 2 * node.scratch.iter().map(bytes).sum::<u64>();
        Work { flops: node.op.flops(&shapes, counts), bytes: moved }
    }
}

/// The number of reads by nodes of each value, of views and of parts of it.
#[derive(Default)]
pub(super) struct Reads(HashMap<ValueId, usize>);

impl Reads {
    /// Counts the reads of a node. A value that is computed again is read by the readers of both, but for those that are
    /// there twice: what is fused does not depend on what is computed again.
    pub(super) fn add(&mut self, graph: &Graph, node: &Node) {
        if !node.results.iter().any(|id| graph.again.contains_key(id)) {
            node.operands.iter().for_each(|id| *self.0.entry(graph.repeated(*id)).or_default() += 1);
        }
    }

    /// Counts the reads of a node no longer.
    pub(super) fn remove(&mut self, graph: &Graph, node: &Node) {
        if !node.results.iter().any(|id| graph.again.contains_key(id)) {
            node.operands.iter().for_each(|id| *self.0.entry(graph.repeated(*id)).or_default() -= 1);
        }
    }

    /// The number of reads of a value, plus one if it is an output or itself a part of a value.
    pub(super) fn of(&self, graph: &Graph, id: ValueId) -> usize {
        let own = graph.repeated(id);
        let is_part = graph.owner(id) != graph.viewed(id);
        let is_output = || graph.outputs.iter().any(|id| graph.repeated(*id) == own);
        self.0.get(&own).copied().unwrap_or(0) + usize::from(is_part || is_output())
    }
}
