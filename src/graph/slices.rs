//! Parts of a value: many tensors in one array, read and written where they are.

use std::ops::Range;

use super::{Graph, Source, Value, ValueId};
use crate::ops::{Cast, Counts, Dim, Shape};
use crate::{Error, Result};

impl Graph {
    /// Adds a value that is a part of another: its elements from `first` on, in `shape`.
    ///
    /// # Errors
    /// `InvalidArgument` for a part that does not lie within the value, for integers and for constants.
    ///
    /// ```
    /// use grilly::dtype::DType;
    /// use grilly::graph::Graph;
    /// use grilly::ops::Shape;
    /// let mut graph = Graph::new();
    /// let all = graph.state("all", Shape::fixed(&[100]), DType::F32);
    /// let bias = graph.slice("bias", all, 64, Shape::fixed(&[3])).unwrap();
    /// assert_eq!(graph.owner(bias), all);
    /// assert!(graph.slice("bias", all, 98, Shape::fixed(&[3])).is_err());
    /// ```
    pub fn slice(&mut self, name: &str, of: ValueId, first: usize, shape: Shape) -> Result<ValueId> {
        let Value { name: whole, shape: all, dtype, .. } = self.value(of);
        let wrong = |problem: String| Err(Error::InvalidArgument(format!("{name}: {problem}")));
        let fixed = |shape: &Shape| shape.0.iter().all(|dim| matches!(dim, Dim::Fixed(_)));
        let (size, end) = (all.elements(Counts::default()), first + shape.elements(Counts::default()));
        if !(fixed(all) && fixed(&shape)) || end > size {
            return wrong(format!("{shape} from element {first} is not a part of {whole}, of shape {all}"));
        }
        if !dtype.is_float() || matches!(self.value(self.owner(of)).source, Source::Weight(_) | Source::Filled(_)) {
            return wrong(format!("{whole} cannot be read in parts: it is a constant or holds integers"));
        }
        let dtype = *dtype;
        Ok(self.push(Value { name: name.to_owned(), shape, dtype, source: Source::Slice(of, first) }))
    }

    /// Lets the node that computes a value write it into a state, from its element `first` on; a value of another type, one
    /// that has memory already, and one computed from this state are converted or copied.
    ///
    /// # Errors
    /// As [`Graph::slice`].
    ///
    /// ```
    /// use grilly::dtype::DType;
    /// use grilly::graph::{Graph, Source};
    /// use grilly::ops::{Activation, ActivationKind, Shape};
    /// let mut graph = Graph::new();
    /// let x = graph.input("x", Shape::fixed(&[3]), DType::F32);
    /// let y = graph.node("y", Activation::from(ActivationKind::Relu), &[x]).unwrap();
    /// let all = graph.state("all", Shape::fixed(&[100]), DType::F32);
    /// graph.write_to(y, all, 64).unwrap();
    /// assert_eq!(graph.value(y).source, Source::Slice(all, 64));
    /// ```
    pub fn write_to(&mut self, value: ValueId, state: ValueId, first: usize) -> Result<()> {
        let Value { name, shape, .. } = self.value(value).clone();
        self.slice(&name, state, first, shape)?;
        let (seen, to) = (self.seen(value), self.value(state).dtype);
        let is_own = self.value(seen).source == Source::Node
            && self.value(seen).dtype == to
            && !self.outputs.iter().any(|id| self.seen(*id) == seen)
            && self.producer(seen).is_some_and(|(place, _)| self.is_apart(state, &self.nodes[place].operands));
        let written = if is_own { seen } else { self.node(&name, Cast { to }, &[value])? };
        self.values[written.0].source = Source::Slice(state, first);
        Ok(())
    }

    /// Whether none of the values has memory in common with another, as a node's operands and what it writes must not.
    fn is_apart(&self, id: ValueId, others: &[ValueId]) -> bool {
        others.iter().all(|other| self.owner(*other) != self.owner(id))
    }

    /// Rejects other operands of the node `name` in the memory that it updates.
    pub(super) fn check_apart(&self, name: &str, id: ValueId, mut others: impl Iterator<Item = ValueId>) -> Result<()> {
        match others.find(|other| !self.is_apart(id, &[*other])) {
            None => Ok(()),
            Some(other) => {
                let (own, other) = (&self.value(id).name, &self.value(other).name);
                Err(Error::InvalidArgument(format!(
                    "{name}: it reads {other}, which lies in the memory of {own}, which it updates"
                )))
            }
        }
    }

    /// The value of which another is a view or a part, itself not a part, and which elements.
    pub(super) fn extent(&self, id: ValueId) -> (ValueId, Range<usize>) {
        let elements = self.value(id).shape.elements(Counts::default());
        let (mut whole, mut first) = (self.seen(id), 0);
        while let Source::Slice(of, start) = self.value(whole).source {
            (whole, first) = (self.seen(of), first + start);
        }
        // Counted axes have no size here; such values have no parts.
        (whole, first..first + elements.max(1))
    }

    /// The first byte of a value in the memory of its owner.
    pub(super) fn offset(&self, id: ValueId) -> usize {
        match self.value(id).source {
            Source::View(of) | Source::Update(of) => self.offset(of),
            Source::Slice(of, first) => self.offset(of) + self.value(id).dtype.bytes(first),
            _ => 0,
        }
    }
}
