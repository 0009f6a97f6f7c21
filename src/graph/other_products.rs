//! Names the products of a plan in integers that stay in floating point.

use super::{Node, Plan};
use crate::ops::Op;
use crate::ops::signature::Role;

impl Plan {
    /// For a plan with products in integers, or one for which they were `wanted`: a line with the nodes whose matrix is
    /// stored in floating point. Empty for other plans.
    ///
    /// ```
    /// use grilly::graph::{Graph, Plan};
    /// assert_eq!(Plan::new(Graph::new()).other_products(false), "");
    /// ```
    pub fn other_products(&self, wanted: bool) -> String {
        let nodes = &self.graph.nodes;
        if !wanted && !nodes.iter().any(|node| matches!(node.op, Op::QuantizedLinear(_))) {
            return String::new();
        }
        let is_other = |node: &&Node| {
            let matrix = |(place, _): &(usize, _)| node.op.operand(*place).role == Role::Matrix;
            node.operands.iter().enumerate().filter(matrix).any(|(_, id)| self.graph.value(*id).dtype.is_float())
        };
        let names: Vec<&str> = nodes.iter().filter(is_other).map(|node| node.name.as_str()).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        format!("products left in floating point: {names}\n")
    }
}
