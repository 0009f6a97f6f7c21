//! A graph of operations over inputs and weights, in the order they were added.

use crate::dtype::DType;
use crate::ops::{Counts, Dim, Op, Shape, Work};
use crate::tensor::Part;
use crate::{Error, Result};

/// A value's place in [`Graph::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub usize);

/// A constant: one or more tensors of the checkpoint stacked along the first axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Weight {
    /// The tensors, in order; `q`, `k` and `v` become one product this way.
    pub parts: Vec<Part>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// The caller gives it with each batch; the number is its place among the inputs.
    Input(usize),
    /// It is the model's.
    Weight(Weight),
    /// A node computes it.
    Node,
    /// It is another value's elements in another shape.
    View(ValueId),
}

/// One tensor of the graph.
#[derive(Debug, Clone)]
pub struct Value {
    /// For messages and debug names.
    pub name: String,
    /// Axes.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
    /// Origin.
    pub source: Source,
}

impl Value {
    /// Bytes in a batch.
    pub fn bytes(&self, counts: Counts) -> usize {
        self.dtype.bytes(self.shape.elements(counts))
    }
}

/// One operation applied to values.
#[derive(Debug, Clone)]
pub struct Node {
    /// Where in the model, e.g. `layer 3 attention output`.
    pub name: String,
    /// What is computed.
    pub op: Op,
    /// Operands, in the op's order.
    pub operands: Vec<ValueId>,
    /// Result (every op of today has one).
    pub result: ValueId,
    /// Memory that lives while it runs, as its op wants.
    pub scratch: Vec<ValueId>,
}

/// Values and the nodes that make them. Nodes stand in an order in which they can run.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// All tensors.
    pub values: Vec<Value>,
    /// All operations.
    pub nodes: Vec<Node>,
    /// Values the caller gives, in order.
    pub inputs: Vec<ValueId>,
    /// Values the caller gets, in order.
    pub outputs: Vec<ValueId>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    fn push(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() - 1)
    }

    /// Adds a tensor that the caller gives with each batch.
    pub fn input(&mut self, name: &str, shape: Shape, dtype: DType) -> ValueId {
        let source = Source::Input(self.inputs.len());
        let id = self.push(Value { name: name.to_owned(), shape, dtype, source });
        self.inputs.push(id);
        id
    }

    /// Adds a constant of the model in float32, `parts` stacked along the first axis; `shape` is that of the whole.
    pub fn weight(&mut self, parts: Vec<Part>, shape: Shape) -> ValueId {
        self.weight_as(DType::F32, parts, shape)
    }

    /// Adds a constant of the model that is stored as `dtype`.
    pub fn weight_as(&mut self, dtype: DType, parts: Vec<Part>, shape: Shape) -> ValueId {
        let name = parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join("+");
        self.push(Value { name, shape, dtype, source: Source::Weight(Weight { parts }) })
    }

    /// Adds an operation and returns its result.
    ///
    /// # Errors
    /// `InvalidArgument` when the operands do not fit the op, prefixed by the node's name.
    pub fn node(&mut self, name: &str, op: impl Into<Op>, operands: &[ValueId]) -> Result<ValueId> {
        let op = op.into();
        let shapes = self.shapes(operands);
        let mut results = op.infer(&shapes).map_err(|e| Error::InvalidArgument(format!("{name}: {e}")))?;
        let types: Vec<DType> = operands.iter().map(|id| self.value(*id).dtype).collect();
        let dtype = op.result_type(&types);
        let (shape, scratch) = (results.remove(0), op.scratch(&shapes, dtype));
        let result = self.push(Value { name: name.to_owned(), shape, dtype, source: Source::Node });
        let scratch = scratch.into_iter().map(|shape| {
            self.push(Value { name: format!("{name} scratch"), shape, dtype: DType::F32, source: Source::Node })
        });
        let scratch = scratch.collect();
        self.nodes.push(Node { name: name.to_owned(), op, operands: operands.to_vec(), result, scratch });
        Ok(result)
    }

    /// The shapes of values.
    pub fn shapes(&self, values: &[ValueId]) -> Vec<&Shape> {
        values.iter().map(|id| &self.value(*id).shape).collect()
    }

    /// The value behind an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// Adds a view of a value: the same elements in another shape, which has as many.
    pub fn view(&mut self, name: &str, of: ValueId, shape: Shape) -> ValueId {
        let dtype = self.value(of).dtype;
        self.push(Value { name: name.to_owned(), shape, dtype, source: Source::View(of) })
    }

    /// The value that a view shows, and any other value itself.
    pub fn viewed(&self, id: ValueId) -> ValueId {
        match self.value(id).source {
            Source::View(of) => self.viewed(of),
            _ => id,
        }
    }

    /// How often nodes read the value, itself or a view of it, plus one if it is an output.
    pub fn uses(&self, id: ValueId) -> usize {
        let read = self.nodes.iter().flat_map(|n| &n.operands).filter(|v| self.viewed(**v) == id).count();
        read + usize::from(self.outputs.iter().any(|v| self.viewed(*v) == id))
    }

    /// The last step that reads each value, itself or a view of it; `usize::MAX` for outputs, which outlive all steps.
    pub fn last_uses(&self) -> Vec<usize> {
        let mut last = vec![0; self.values.len()];
        for (step, node) in self.nodes.iter().enumerate() {
            for operand in &node.operands {
                last[self.viewed(*operand).0] = step;
            }
        }
        for output in &self.outputs {
            last[self.viewed(*output).0] = usize::MAX;
        }
        last
    }

    /// Whether a batch must hold texts of one length: some value has an axis of [`Dim::Length`].
    pub fn needs_one_length(&self) -> bool {
        self.nodes.iter().any(|node| self.value(node.result).shape.0.contains(&Dim::Length))
    }

    /// Flops of a node, and the bytes of its operands and its result, each read or written once, and of its scratch
    /// memory, written and read.
    pub fn work(&self, node: &Node, counts: Counts) -> Work {
        let shapes = self.shapes(&node.operands);
        let mut values = [&node.operands[..], &[node.result]].concat();
        // What stands in two places is read once.
        values.sort();
        values.dedup();
        let bytes = |id: &ValueId| self.value(*id).bytes(counts) as u64;
        let moved = values.iter().map(bytes).sum::<u64>() + 2 * node.scratch.iter().map(bytes).sum::<u64>();
        Work { flops: node.op.flops(&shapes, counts), bytes: moved }
    }
}
