//! Nodes in 16 bits that have no kernel for them, converted to float32.

use std::sync::Arc;

use super::{Graph, Node, Plan, Value, ValueId};
use crate::dtype::DType;
use crate::ops::Cast;
use crate::ops::signature::Role;
use crate::{Error, Result};

impl Graph {
    /// Whether one of `such` nodes has operands in 16 bits.
    pub fn has_narrow(&self, such: impl Fn(&Node) -> bool) -> bool {
        self.nodes.iter().any(|node| such(node) && self.is_narrow(node))
    }

    fn is_narrow(&self, node: &Node) -> bool {
        node.operands.iter().any(|id| self.value(*id).dtype.is_narrow())
    }

    /// The same graph with the 16-bit operands of `such` nodes converted to float32, and their results back.
    ///
    /// # Errors
    /// As [`Graph::apply`].
    ///
    /// ```
    /// use grilly::dtype::DType;
    /// use grilly::graph::Graph;
    /// use grilly::ops::{Matmul, Op, Shape};
    /// let mut graph = Graph::new();
    /// let [a, b] = ["a", "b"].map(|name| graph.input(name, Shape::fixed(&[8, 8]), DType::F16));
    /// graph.outputs = vec![graph.node("y", Matmul::default(), &[a, b]).unwrap()];
    /// let wide = graph.with_wide(|node| matches!(node.op, Op::Matmul(_))).unwrap();
    /// assert_eq!(wide.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>(), ["cast", "cast", "matmul", "cast"]);
    /// assert_eq!(wide.value(wide.outputs[0]).dtype, DType::F16);
    /// ```
    pub fn with_wide(mut self, such: impl Fn(&Node) -> bool) -> Result<Self> {
        for node in std::mem::take(&mut self.nodes) {
            if !such(&node) || !self.is_narrow(&node) {
                self.push_node(node);
                continue;
            }
            let in_float32 = |id: &ValueId| match self.value(*id).dtype.is_narrow() {
                true => self.node(&format!("{} in float32", self.value(*id).name), Cast { to: DType::F32 }, &[*id]),
                false => Ok(*id),
            };
            let operands = node.operands.iter().map(in_float32).collect::<Result<Vec<_>>>()?;
            if !node.results.iter().any(|id| self.value(*id).dtype.is_narrow()) {
                self.push_node(Node { operands, ..node });
                continue;
            }
            let wide = self.apply(&format!("{} in float32", node.name), node.op, &operands)?;
            for (id, wide) in node.results.iter().zip(wide) {
                let (name, op) = (node.name.clone(), Cast { to: self.value(*id).dtype }.into());
                self.push_node(Node { name, op, operands: vec![wide], results: vec![*id], scratch: Vec::new() });
            }
        }
        Ok(self)
    }
}

impl Plan {
    /// The same plan for a device that stores 16 bits and computes in float32 alone: every node but conversions takes
    /// float32, and each of its results that is stored in 16 bits is rounded once.
    ///
    /// # Errors
    /// `Unsupported` for a part of a value that begins inside of a word, else as [`Graph::apply`].
    pub fn in_float32(mut self: Arc<Self>) -> Result<Arc<Self>> {
        let computes = |node: &Node| node.op.operand(0).role != Role::Any;
        if !self.graph.has_narrow(computes) {
            return Ok(self);
        }
        let inside = |(value, first): &(&Value, &usize)| value.dtype.is_narrow() && *first % 4 != 0;
        if let Some((value, first)) = self.graph.values.iter().zip(&self.offsets).find(inside) {
            return Err(Error::unsupported(&value.name, format!("it begins at byte {first}, inside of a word")));
        }
        let plan = Arc::make_mut(&mut self);
        plan.graph = std::mem::take(&mut plan.graph).with_wide(computes)?;
        plan.place(None);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{LayerNorm, LayerNormBackward, LayerNormWeightBackward, Shape};

    #[test]
    fn results_keep_their_types_and_float32_stays_as_it_is() {
        let mut graph = Graph::new();
        let [g, x] = ["g", "x"].map(|name| graph.input(name, Shape::fixed(&[2, 8]), DType::Bf16));
        let weight = graph.input("weight", Shape::fixed(&[8]), DType::F32);
        let by_x = graph.node("by x", LayerNormBackward(LayerNorm { eps: 0.5 }), &[g, x, weight]).unwrap();
        let others = graph.apply("others", LayerNormWeightBackward(LayerNorm { eps: 0.5 }), &[g, x]).unwrap();
        graph.outputs = [&[by_x], &others[..]].concat();
        let names = |graph: &Graph| graph.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>();
        let kept = names(&graph);
        assert_eq!(names(&graph.clone().with_wide(|_| false).unwrap()), kept);
        let wide = graph.with_wide(|_| true).unwrap();
        assert_eq!(names(&wide), ["cast", "cast", kept[0], "cast", "cast", "cast", kept[1]]);
        let types: Vec<DType> = wide.outputs.iter().map(|id| wide.value(*id).dtype).collect();
        assert_eq!(types, [DType::Bf16, DType::F32, DType::F32]);
        assert_eq!(wide.nodes[2].operands[2], weight);
        assert!(
            wide.outputs.iter().all(|id| wide.producer(*id).is_some())
                && !wide.has_narrow(|node| node.op.name() != "cast")
        );
    }
}
