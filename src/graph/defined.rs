//! Ops as the steps of their definitions, for devices that have no kernels for them.

use super::{Graph, Node, Source, Value, ValueId};
use crate::Result;
use crate::ops::{Binary, BinaryKind, Op};

impl Graph {
    /// The same graph where each op for which `runs` is false is the steps of its definition; one without steps stays.
    pub(super) fn defined(mut self, runs: &dyn Fn(&Op) -> bool) -> Self {
        for node in std::mem::take(&mut self.nodes) {
            match if runs(&node.op) { Ok(Vec::new()) } else { self.steps_of(&node) } {
                Ok(made) if !made.is_empty() => self.replace_values(&node.results, made),
                _ => self.push_node(node),
            }
        }
        self
    }

    /// Lets a node compute each output that is a constant, such as the gradient with respect to an operand without effect.
    pub(super) fn compute_constants(&mut self) {
        for place in 0..self.outputs.len() {
            let Value { name, shape, source, .. } = self.value(self.seen(self.outputs[place])).clone();
            if let Source::Filled(_) = source {
                let one = self.filled(1.0, shape);
                let product = self.node(&name, Binary::from(BinaryKind::Multiply), &[self.outputs[place], one]);
                self.outputs[place] = product.unwrap_or(self.outputs[place]);
            }
        }
    }

    /// Appends the steps of a node's definition. Returns the results of the last, and where the op has more, those of all.
    fn steps_of(&mut self, node: &Node) -> Result<Vec<ValueId>> {
        let (mut made, mut last) = (Vec::new(), Vec::new());
        for step in node.op.definition(&self.shapes(&node.operands))? {
            let operands = step.operands.iter().map(|term| self.term(term, &node.operands, &made));
            let operands: Vec<ValueId> = operands.collect();
            last = self.apply(&node.name, step.op, &operands)?;
            made.extend(&last);
        }
        last.append(&mut made);
        Ok(last)
    }

    /// Lets other values, which nodes compute, stand for these.
    pub(super) fn replace_values(&mut self, before: &[ValueId], made: impl IntoIterator<Item = ValueId>) {
        for (before, made) in before.iter().zip(made) {
            let source = std::mem::replace(&mut self.values[before.0].source, Source::View(made));
            if let Source::Slice(..) = source {
                self.values[made.0].source = source;
            }
        }
    }
}
