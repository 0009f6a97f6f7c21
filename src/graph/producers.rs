//! Which node computes a value, found without a look at all nodes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Graph, Node, Source, ValueId};

/// Where nodes were seen. They move, so each look checks it.
#[derive(Debug, Default)]
pub(super) struct Producers(Mutex<Places>);

impl Clone for Producers {
    fn clone(&self) -> Self {
        Producers(Mutex::new(self.places().clone()))
    }
}

#[derive(Debug, Clone, Default)]
struct Places {
    /// The place of the node that computes each value, by value id.
    of: Vec<usize>,
    /// The number of nodes, if all are noted.
    all: Option<usize>,
}

/// The place of a value that no node was seen to compute.
const NONE: usize = usize::MAX;

impl Places {
    fn of(&self, id: ValueId) -> usize {
        self.of.get(id.0).copied().unwrap_or(NONE)
    }

    fn note(&mut self, node: &Node, place: usize) {
        for id in &node.results {
            if self.of.len() <= id.0 {
                self.of.resize(id.0 + 1, NONE);
            }
            self.of[id.0] = place;
        }
    }

    fn note_all(&mut self, nodes: &[Node]) {
        self.of.fill(NONE);
        nodes.iter().enumerate().for_each(|(place, node)| self.note(node, place));
        self.all = Some(nodes.len());
    }
}

impl Producers {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes nothing any more, after a node got another result.
    pub(super) fn forget(&self) {
        self.places().all = None;
    }
}

impl Graph {
    /// The node that computes a value, and the index of the value among the node's results.
    pub fn producer(&self, id: ValueId) -> Option<(usize, usize)> {
        let id = self.seen(id);
        let mut places = self.producers.places();
        let at = |place: usize| {
            let result = self.nodes.get(place)?.results.iter().position(|result| *result == id)?;
            Some((place, result))
        };
        let known = places.of(id);
        match self.value(id).source {
            Source::Input(_) | Source::State(_) | Source::Weight(_) | Source::Filled(_) => None,
            // A part that nothing writes.
            Source::Slice(..) if known == NONE => None,
            _ if known == NONE && places.all == Some(self.nodes.len()) => None,
            _ => at(known).or_else(|| {
                places.note_all(&self.nodes);
                at(places.of(id))
            }),
        }
    }

    /// Appends a node.
    pub(super) fn push_node(&mut self, node: Node) {
        let mut places = self.producers.places();
        places.note(&node, self.nodes.len());
        places.all = places.all.filter(|all| *all == self.nodes.len()).map(|all| all + 1);
        drop(places);
        self.nodes.push(node);
    }

    /// Puts a node in the place of another.
    pub(super) fn put_node(&mut self, place: usize, node: Node) {
        self.producers.places().note(&node, place);
        self.nodes[place] = node;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::ops::{Activation, ActivationKind, Shape};

    #[test]
    fn nodes_that_move_are_found() {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::fixed(&[3]), DType::F32);
        let mut ids = vec![x];
        for _ in 0..5 {
            let silu = Activation::from(ActivationKind::Silu);
            ids.push(graph.node("y", silu, &[ids[ids.len() - 1]]).unwrap());
        }
        let places = |graph: &Graph| ids.iter().map(|id| graph.producer(*id)).collect::<Vec<_>>();
        let expected = |order: [usize; 5]| {
            [None].into_iter().chain(order.map(|place| Some((place, 0)))).collect::<Vec<Option<(usize, usize)>>>()
        };
        assert_eq!(places(&graph), expected([0, 1, 2, 3, 4]));
        graph.nodes.rotate_right(1);
        assert_eq!(places(&graph), expected([1, 2, 3, 4, 0]));
        let other = graph.clone();
        graph.nodes.swap(0, 3);
        assert_eq!(places(&graph), expected([1, 2, 0, 4, 3]));
        assert_eq!(places(&other), expected([1, 2, 3, 4, 0]));
        graph.nodes.remove(0);
        assert_eq!(graph.producer(ids[3]), None);
        assert_eq!(graph.producer(ids[5]), Some((2, 0)));
    }
}
