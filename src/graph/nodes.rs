//! A graph of operations over inputs and weights, in the order in which they were added.

use std::collections::HashMap;

use super::producers::Producers;
use crate::dtype::DType;
use crate::ops::{Cast, Counts, Dim, Op, Shape};
use crate::tensor::Part;
use crate::{Error, Result};

/// Index of a value in [`Graph::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub usize);

/// A constant: one or more tensors of the checkpoint stacked along the first axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Weight {
    /// The tensors, in order; this makes `q`, `k` and `v` a single product.
    pub parts: Vec<Part>,
}

/// Source of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Passed by the caller with each batch; the number is its index among the inputs.
    Input(usize),
    /// Persistent between runs, and updatable by nodes; the number is its index among the states.
    State(usize),
    /// A tensor of the model.
    Weight(Weight),
    /// A constant whose elements are all the float32 with these bits.
    Filled(u32),
    /// The result of a node.
    Node,
    /// The elements of another value in another shape.
    View(ValueId),
    /// Adjacent elements of a state or of a computed value, from this one on. If a node computes them, it writes them there.
    Slice(ValueId, usize),
    /// Another value after a node has updated it in place.
    Update(ValueId),
}

/// One tensor of the graph.
#[derive(Debug, Clone)]
pub struct Value {
    /// Used in messages and debug names.
    pub name: String,
    /// Axes.
    pub shape: Shape,
    /// Element type.
    pub dtype: DType,
    /// Its source.
    pub source: Source,
}

impl Value {
    /// Size in bytes in a batch.
    pub fn bytes(&self, counts: Counts) -> usize {
        self.dtype.bytes(self.shape.elements(counts))
    }
}

/// One operation applied to values.
#[derive(Debug, Clone)]
pub struct Node {
    /// Location in the model, e.g. `layer 3 attention output`.
    pub name: String,
    /// The operation.
    pub op: Op,
    /// Operands, in the op's order.
    pub operands: Vec<ValueId>,
    /// Results, in the op's order.
    pub results: Vec<ValueId>,
    /// Scratch memory required by its op, live only while the node runs.
    pub scratch: Vec<ValueId>,
}

/// Values and the nodes that compute them. The order of the nodes is a valid execution order.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// All tensors.
    pub values: Vec<Value>,
    /// All operations.
    pub nodes: Vec<Node>,
    /// Values passed by the caller, in order.
    pub inputs: Vec<ValueId>,
    /// Values that persist between runs, in order.
    pub states: Vec<ValueId>,
    /// Values returned to the caller, in order.
    pub outputs: Vec<ValueId>,
    /// The rows of which all texts of a run have equally many, [`Dim::Tokens`] or [`Dim::Counted`], each with the input
    /// that has their boundaries; none if texts may have any lengths.
    pub lengths: Vec<(Dim, ValueId)>,
    /// Values that are others after a node has written in their place.
    updates: Vec<ValueId>,
    /// The constants of the model, by name.
    weights: HashMap<String, Vec<ValueId>>,
    /// Values that are computed a second time, and the value each of them repeats.
    pub(super) again: HashMap<ValueId, ValueId>,
    /// Where nodes were last seen.
    pub(super) producers: Producers,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    pub(super) fn push(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() - 1)
    }

    /// Adds a tensor that the caller passes with each batch.
    pub fn input(&mut self, name: &str, shape: Shape, dtype: DType) -> ValueId {
        let source = Source::Input(self.inputs.len());
        let id = self.push(Value { name: name.to_owned(), shape, dtype, source });
        self.inputs.push(id);
        id
    }

    /// Adds a tensor that persists between runs, such as a parameter in training or a cache.
    pub fn state(&mut self, name: &str, shape: Shape, dtype: DType) -> ValueId {
        let source = Source::State(self.states.len());
        let id = self.push(Value { name: name.to_owned(), shape, dtype, source });
        self.states.push(id);
        id
    }

    /// Adds a float32 constant with all elements equal to `number`.
    pub fn filled(&mut self, number: f32, shape: Shape) -> ValueId {
        let (name, source) = (format!("{number}"), Source::Filled(number.to_bits()));
        self.push(Value { name, shape, dtype: DType::F32, source })
    }

    /// Adds a float32 constant of the model: `parts` stacked along the first axis; `shape` is the shape of the whole.
    pub fn weight(&mut self, parts: Vec<Part>, shape: Shape) -> ValueId {
        self.weight_as(DType::F32, parts, shape)
    }

    /// Adds a constant of the model stored as `dtype`, or returns the value of an equal one.
    pub fn weight_as(&mut self, dtype: DType, parts: Vec<Part>, shape: Shape) -> ValueId {
        let same = |value: &Value| {
            value.dtype == dtype
                && value.shape == shape
                && matches!(&value.source, Source::Weight(weight) if weight.parts == parts)
        };
        let name = parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>().join("+");
        let named = self.weights.get(&name).into_iter().flatten();
        if let Some(known) = named.copied().find(|id| same(self.value(*id))) {
            return known;
        }
        let id = self.push(Value { name: name.clone(), shape, dtype, source: Source::Weight(Weight { parts }) });
        self.weights.entry(name).or_default().push(id);
        id
    }

    /// Adds an operation and returns its first result.
    ///
    /// # Errors
    /// As [`Graph::apply`].
    pub fn node(&mut self, name: &str, op: impl Into<Op>, operands: &[ValueId]) -> Result<ValueId> {
        Ok(self.apply(name, op, operands)?[0])
    }

    /// Adds an operation and returns its results. A result with the name of an operand is written in place of that
    /// operand, which cannot be read afterwards; an input or a constant is copied first.
    ///
    /// # Errors
    /// `InvalidArgument`, prefixed by the node's name, when the operands do not fit the op or one of them was updated.
    pub fn apply(&mut self, name: &str, op: impl Into<Op>, operands: &[ValueId]) -> Result<Vec<ValueId>> {
        for id in operands {
            if let Some(place) = self.updated_by(*id) {
                let (read, node) = (&self.value(*id).name, &self.nodes[place].name);
                return Err(Error::InvalidArgument(format!("{name}: {read} was updated by {node}")));
            }
        }
        let op = op.into();
        let operands = self.completed(&op, operands);
        let results = self.infer(name, &op, &operands)?;
        self.apply_inferred(name, op, &operands, results)
    }

    /// Operands followed by those that are filled with a number where they are left out.
    pub(crate) fn completed(&mut self, op: &Op, operands: &[ValueId]) -> Vec<ValueId> {
        let missing = op.filled(&self.shapes(operands));
        operands.iter().copied().chain(missing.into_iter().map(|(number, shape)| self.filled(number, shape))).collect()
    }

    /// As [`Graph::apply`], for operands that have not been updated and from which the results' shapes were inferred.
    pub(crate) fn apply_inferred(
        &mut self,
        name: &str,
        op: Op,
        operands: &[ValueId],
        results: Vec<Shape>,
    ) -> Result<Vec<ValueId>> {
        match op.steps(&self.shapes(operands)) {
            Some(steps) => steps.into_iter().try_fold(operands.to_vec(), |given, step| self.add(name, step, &given)),
            None => self.insert(name, op, operands, results),
        }
    }

    /// As [`Graph::apply`], but adds exactly one node, for operands that have not been updated.
    pub(crate) fn add(&mut self, name: &str, op: Op, operands: &[ValueId]) -> Result<Vec<ValueId>> {
        let results = self.infer(name, &op, operands)?;
        self.insert(name, op, operands, results)
    }

    fn infer(&self, name: &str, op: &Op, operands: &[ValueId]) -> Result<Vec<Shape>> {
        let results = op.infer(&self.shapes(operands));
        results.map_err(|error| Error::InvalidArgument(format!("{name}: {error}")))
    }

    /// Adds the node of an op with results of these shapes.
    fn insert(&mut self, name: &str, op: Op, operands: &[ValueId], results: Vec<Shape>) -> Result<Vec<ValueId>> {
        let mut operands = operands.to_vec();
        let updates: Vec<Option<usize>> = op.results().iter().map(|result| op.place_of(result.name, 0)).collect();
        for place in updates.iter().flatten() {
            operands[*place] = self.writable(operands[*place])?;
            let others = operands.iter().enumerate().filter(|(other, _)| other != place).map(|(_, id)| *id);
            self.check_apart(name, operands[*place], others)?;
        }
        let types: Vec<DType> = operands.iter().map(|id| self.value(*id).dtype).collect();
        let types = op.result_types(&types);
        let scratch = op.scratch(&self.shapes(&operands), types[0]);
        let mut ids = Vec::with_capacity(results.len());
        for ((shape, dtype), update) in results.into_iter().zip(types).zip(updates) {
            let source = update.map_or(Source::Node, |place| Source::Update(operands[place]));
            if update.is_some() {
                self.updates.push(ValueId(self.values.len()));
            }
            let own = if ids.is_empty() { name.to_owned() } else { format!("{name} {}", op.results()[ids.len()].name) };
            ids.push(self.push(Value { name: own, shape, dtype, source }));
        }
        let scratch = scratch.into_iter().map(|shape| {
            self.push(Value { name: format!("{name} scratch"), shape, dtype: DType::F32, source: Source::Node })
        });
        let scratch = scratch.collect();
        self.push_node(Node { name: name.to_owned(), op, operands, results: ids.clone(), scratch });
        Ok(ids)
    }

    /// The index of the node that updated a value, or a part of it, in place, after which the value cannot be read.
    pub(super) fn updated_by(&self, id: ValueId) -> Option<usize> {
        let (whole, own) = self.extent(id);
        let updates = |result: &&ValueId| match self.value(**result).source {
            Source::Update(of) => {
                let (other, part) = self.extent(of);
                other == whole && part.start < own.end && own.start < part.end
            }
            _ => false,
        };
        self.updates.iter().filter(updates).find_map(|result| self.producer(*result)).map(|(place, _)| place)
    }

    /// A value that a node may overwrite: the value itself, or a copy of one that the caller or the model owns.
    fn writable(&mut self, id: ValueId) -> Result<ValueId> {
        match self.value(self.owner(id)).source {
            Source::Input(_) | Source::Weight(_) | Source::Filled(_) => {
                let (name, to) = (format!("copy of {}", self.value(id).name), self.value(id).dtype);
                self.node(&name, Cast { to }, &[id])
            }
            _ => Ok(id),
        }
    }

    /// The shapes of values.
    pub fn shapes(&self, values: &[ValueId]) -> Vec<&Shape> {
        values.iter().map(|id| &self.value(*id).shape).collect()
    }

    /// The value with an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// Writes the axes of a value in another way: counted by the batch, or as the sizes of a batch of these counts.
    ///
    /// # Errors
    /// `InvalidArgument` where these are not the value's axes in such a batch.
    pub(crate) fn retype(&mut self, id: ValueId, shape: Shape, counts: Counts) -> Result<()> {
        let value = &mut self.values[id.0];
        if value.shape.sizes(counts) != shape.sizes(counts) {
            return Err(Error::InvalidArgument(format!("{} has shape {}, expected {shape}", value.name, value.shape)));
        }
        value.shape = shape;
        Ok(())
    }

    /// Adds a view of a value: the same elements in another shape with the same number of elements.
    pub fn view(&mut self, name: &str, of: ValueId, shape: Shape) -> ValueId {
        let dtype = self.value(of).dtype;
        self.push(Value { name: name.to_owned(), shape, dtype, source: Source::View(of) })
    }
}
