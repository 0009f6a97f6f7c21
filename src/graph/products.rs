//! Products of matrices in 16 bits, for devices that have none.

use super::{Graph, Node, ValueId};
use crate::Result;
use crate::dtype::DType;
use crate::ops::{Cast, Matmul, Op};

impl Graph {
    /// Whether a [`Matmul`] has operands in 16 bits, which run on matrix cores alone.
    pub fn has_narrow_products(&self) -> bool {
        self.nodes.iter().any(|node| self.is_narrow_product(node))
    }

    fn is_narrow_product(&self, node: &Node) -> bool {
        matches!(node.op, Op::Matmul(_)) && node.operands.iter().any(|id| self.value(*id).dtype.is_narrow())
    }

    /// The same graph with the operands of these products converted to float32, and their results back.
    ///
    /// # Errors
    /// As [`Graph::apply`].
    ///
    /// ```
    /// use grilly::dtype::DType;
    /// use grilly::graph::Graph;
    /// use grilly::ops::{Matmul, Shape};
    /// let mut graph = Graph::new();
    /// let [a, b] = ["a", "b"].map(|name| graph.input(name, Shape::fixed(&[8, 8]), DType::F16));
    /// graph.outputs = vec![graph.node("y", Matmul::default(), &[a, b]).unwrap()];
    /// let wide = graph.with_wide_products().unwrap();
    /// assert_eq!(wide.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>(), ["cast", "cast", "matmul", "cast"]);
    /// assert_eq!(wide.value(wide.outputs[0]).dtype, DType::F16);
    /// ```
    pub fn with_wide_products(mut self) -> Result<Self> {
        for node in std::mem::take(&mut self.nodes) {
            let (Op::Matmul(product), true) = (&node.op, self.is_narrow_product(&node)) else {
                self.nodes.push(node);
                continue;
            };
            let in_float32 = |id: &ValueId| {
                let name = format!("{} in float32", self.value(*id).name);
                self.node(&name, Cast { to: DType::F32 }, &[*id])
            };
            let operands = node.operands.iter().map(in_float32).collect::<Result<Vec<_>>>()?;
            let product: Op = Matmul { wide: false, ..product.clone() }.into();
            let to = self.value(node.results[0]).dtype;
            if to == DType::F32 {
                self.nodes.push(Node { op: product, operands, ..node });
                continue;
            }
            let wide = self.node(&format!("{} in float32", node.name), product, &operands)?;
            self.nodes.push(Node { op: Cast { to }.into(), operands: vec![wide], ..node });
        }
        Ok(self)
    }
}
