//! The elements of a constant, and weights of a graph given in another way: by the caller in each run, or as parts of a state
//! that nodes update.

use std::collections::HashSet;

use super::{Graph, Source, Value, ValueId};
use crate::dtype::DType;
use crate::ops::{Cast, Counts, Shape};
use crate::tensor::{Part, TensorView, WeightSource};
use crate::{Error, Result};

impl Value {
    /// The tensors whose elements, one after the other, are those of a constant.
    ///
    /// # Errors
    /// The error that `source` returns, or `InvalidArgument` where this is no constant, or the tensors do not fit it.
    pub fn tensors<'a>(&'a self, source: &'a dyn WeightSource) -> Result<Vec<TensorView<'a>>> {
        let elements = self.shape.elements(Counts::default());
        let parts = match &self.source {
            Source::Weight(weight) => weight.parts.iter().map(|part| part.view(source)).collect::<Result<Vec<_>>>()?,
            Source::Filled(bits) => {
                vec![TensorView::new(DType::F32, DType::F32, &[elements], bits.to_le_bytes().repeat(elements))]
            }
            _ => return Err(Error::InvalidArgument(format!("{} is bound as a weight but is not one", self.name))),
        };
        let found: usize = parts.iter().map(TensorView::elements).sum();
        if !parts.iter().all(TensorView::is_whole) || found != elements {
            return Err(Error::InvalidArgument(format!("{} does not have the shape {}", self.name, self.shape)));
        }
        Ok(parts)
    }
}

impl Graph {
    /// Turns the weights that nodes read into inputs, appended to the present ones; returns them with their tensors.
    pub fn weights_as_inputs(&mut self) -> Vec<(ValueId, Vec<Part>)> {
        let given = self.take_weights(|_| true);
        for (id, _) in &given {
            self.values[id.0].source = Source::Input(self.inputs.len());
            self.inputs.push(*id);
        }
        given
    }

    /// Turns the weights that nodes read into parts of one new float32 state before the present ones, in the order in which
    /// nodes read them, each at a multiple of `alignment` elements: parameters in training. Those in 16 bits are parts of a copy
    /// of the whole state in 16 bits. Recipes of their tensors are dropped. Tables that are computed stay weights.
    ///
    /// # Errors
    /// As [`Graph::apply`].
    pub fn weights_as_slices(&mut self, name: &str, alignment: usize) -> Result<Vec<ValueId>> {
        let given = self.take_weights(|part| part.computed.is_none());
        let given: Vec<ValueId> = given.into_iter().map(|(id, _)| id).collect();
        let mut first = Vec::with_capacity(given.len());
        let mut size = 0;
        for id in &given {
            first.push(size);
            size += self.value(*id).shape.elements(Counts::default()).next_multiple_of(alignment);
        }
        let all = self.state(name, Shape::fixed(&[size]), DType::F32);
        self.states.rotate_right(1);
        for (place, id) in self.states.iter().enumerate() {
            self.values[id.0].source = Source::State(place);
        }
        let mut copies: Vec<(DType, ValueId)> = vec![(DType::F32, all)];
        for (id, first) in given.iter().zip(first) {
            let to = self.value(*id).dtype;
            let known = copies.iter().find(|(dtype, _)| *dtype == to).map(|(_, copy)| *copy);
            let whole = match known {
                Some(copy) => copy,
                None => {
                    let copy = self.node(&format!("{name} in {}", to.name()), Cast { to }, &[all])?;
                    self.nodes.rotate_right(1);
                    copies.push((to, copy));
                    copy
                }
            };
            self.values[id.0].source = Source::Slice(whole, first);
        }
        Ok(given)
    }

    /// The weights of such tensors that nodes read, each once, with their tensors, which are taken out.
    fn take_weights(&mut self, such: impl Fn(&Part) -> bool) -> Vec<(ValueId, Vec<Part>)> {
        let mut taken = Vec::new();
        let mut seen = HashSet::new();
        let operands: Vec<ValueId> =
            self.nodes.iter().flat_map(|node| &node.operands).map(|id| self.viewed(*id)).collect();
        for id in operands.into_iter().filter(|id| seen.insert(*id)) {
            if let Source::Weight(weight) = &mut self.values[id.0].source
                && weight.parts.iter().all(&such)
            {
                taken.push((id, std::mem::take(&mut weight.parts)));
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Linear;

    #[test]
    fn weights_become_parts_of_a_state_once_each_in_the_order_of_their_reads() {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::fixed(&[2, 3]), DType::F32);
        let cache = graph.state("cache", Shape::fixed(&[1]), DType::F32);
        let unread = graph.weight(vec!["unread".into()], Shape::fixed(&[3, 3]));
        let [b, a] = ["b", "a"].map(|name| graph.weight(vec![name.into()], Shape::fixed(&[3, 3])));
        let y = graph.node("y", Linear::default(), &[x, a]).unwrap();
        let y = graph.node("z", Linear::default(), &[y, b]).unwrap();
        graph.node("again", Linear::default(), &[y, a]).unwrap();
        let table = graph.weight(vec![Part::computed("table", &[3, 3], [0.5; 9].into_iter())], Shape::fixed(&[3, 3]));
        graph.node("table", Linear::default(), &[y, table]).unwrap();
        assert_eq!(graph.weights_as_slices("all", 8).unwrap(), [a, b]);
        let all = graph.states[0];
        assert_eq!((graph.states[1], &graph.value(cache).source), (cache, &Source::State(1)));
        assert_eq!((&graph.value(a).source, &graph.value(b).source), (&Source::Slice(all, 0), &Source::Slice(all, 16)));
        assert_eq!((&graph.value(all).shape, &graph.value(all).source), (&Shape::fixed(&[32]), &Source::State(0)));
        assert!(matches!(graph.value(unread).source, Source::Weight(_)));
        assert_eq!(graph.weights_as_inputs().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [table]);
        assert_eq!((graph.inputs.len(), &graph.value(table).source), (2, &Source::Input(1)));
    }
}
