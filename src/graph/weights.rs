//! Weights of a graph given in another way: by the caller in each run, or as states that nodes update.

use std::collections::HashSet;

use super::{Graph, Source, ValueId};
use crate::tensor::Part;

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

    /// Turns the weights that nodes read into states, before the present ones, in the order in which nodes read
    /// them: parameters in training. Recipes of their tensors are dropped. Tables that are computed stay weights.
    pub fn weights_as_states(&mut self) -> Vec<ValueId> {
        let given = self.take_weights(|part| part.computed.is_none());
        let given: Vec<ValueId> = given.into_iter().map(|(id, _)| id).collect();
        self.states.splice(0..0, given.iter().copied());
        for (place, id) in self.states.iter().enumerate() {
            self.values[id.0].source = Source::State(place);
        }
        given
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
    use crate::ops::{Linear, Shape};

    #[test]
    fn weights_become_states_once_each_in_the_order_of_their_reads() {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::fixed(&[2, 3]), crate::dtype::DType::F32);
        let cache = graph.state("cache", Shape::fixed(&[1]), crate::dtype::DType::F32);
        let unread = graph.weight(vec!["unread".into()], Shape::fixed(&[3, 3]));
        let [b, a] = ["b", "a"].map(|name| graph.weight(vec![name.into()], Shape::fixed(&[3, 3])));
        let y = graph.node("y", Linear::default(), &[x, a]).unwrap();
        let y = graph.node("z", Linear::default(), &[y, b]).unwrap();
        graph.node("again", Linear::default(), &[y, a]).unwrap();
        let table = graph.weight(vec![Part::computed("table", &[3, 3], [0.5; 9].into_iter())], Shape::fixed(&[3, 3]));
        graph.node("table", Linear::default(), &[y, table]).unwrap();
        assert_eq!(graph.weights_as_states(), [a, b]);
        assert_eq!((&graph.states[..], &graph.value(b).source), (&[a, b, cache][..], &Source::State(1)));
        assert_eq!(graph.value(cache).source, Source::State(2));
        assert!(matches!(graph.value(unread).source, Source::Weight(_)));
        assert_eq!(graph.weights_as_inputs().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [table]);
        assert_eq!((graph.inputs.len(), &graph.value(table).source), (2, &Source::Input(1)));
    }
}
