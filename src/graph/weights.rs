//! Weights of a graph given in another way: by the caller in each run, or as states that nodes update.

use std::collections::HashSet;

use super::{Graph, Source, ValueId};
use crate::tensor::Part;

impl Graph {
    /// Turns the weights that nodes read into inputs, appended to the present ones; returns them with their tensors.
    pub fn weights_as_inputs(&mut self) -> Vec<(ValueId, Vec<Part>)> {
        let given = self.take_weights();
        for (id, _) in &given {
            self.values[id.0].source = Source::Input(self.inputs.len());
            self.inputs.push(*id);
        }
        given
    }

    /// Turns the weights that nodes read into states, appended to the present ones, in the order in which nodes read
    /// them: parameters in training. Recipes of their tensors are dropped.
    pub fn weights_as_states(&mut self) -> Vec<ValueId> {
        let given: Vec<ValueId> = self.take_weights().into_iter().map(|(id, _)| id).collect();
        for id in &given {
            self.values[id.0].source = Source::State(self.states.len());
            self.states.push(*id);
        }
        given
    }

    /// The weights that nodes read, each once, with their tensors, which are taken out.
    fn take_weights(&mut self) -> Vec<(ValueId, Vec<Part>)> {
        let mut taken = Vec::new();
        let mut seen = HashSet::new();
        let operands: Vec<ValueId> =
            self.nodes.iter().flat_map(|node| &node.operands).map(|id| self.viewed(*id)).collect();
        for id in operands.into_iter().filter(|id| seen.insert(*id)) {
            if let Source::Weight(weight) = &mut self.values[id.0].source {
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
        let unread = graph.weight(vec!["unread".into()], Shape::fixed(&[3, 3]));
        let [b, a] = ["b", "a"].map(|name| graph.weight(vec![name.into()], Shape::fixed(&[3, 3])));
        let y = graph.node("y", Linear::default(), &[x, a]).unwrap();
        let y = graph.node("z", Linear::default(), &[y, b]).unwrap();
        graph.node("again", Linear::default(), &[y, a]).unwrap();
        assert_eq!(graph.weights_as_states(), [a, b]);
        assert_eq!((&graph.states[..], &graph.value(b).source), (&[a, b][..], &Source::State(1)));
        assert!(matches!(graph.value(unread).source, Source::Weight(_)));
    }
}
