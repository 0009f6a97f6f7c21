//! Passes that replace several nodes by one. Each reports what it fused and why it declined a candidate.

pub mod attention;
mod columns;
mod definitions;
mod linear_epilogue;
mod normed_integers;

use std::sync::Arc;

use super::Graph;
use super::shaders::Registry;
use crate::ops::Op;

/// Outcome of a pass at one candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The candidate became one node.
    Fused {
        /// The pass.
        pass: &'static str,
        /// The resulting node.
        node: String,
    },
    /// The candidate is unchanged.
    Declined {
        /// The pass.
        pass: &'static str,
        /// The candidate.
        node: String,
        /// The reason.
        reason: String,
    },
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Outcome::Fused { pass, node } => write!(f, "{pass}: fused into {node}"),
            Outcome::Declined { pass, node, reason } => write!(f, "{pass}: declined at {node}: {reason}"),
        }
    }
}

/// Parameters of the fusion of a graph.
#[derive(Clone, Copy)]
pub struct Fusion<'a> {
    /// Architecture or `model_type`; empty for none.
    pub architecture: &'a str,
    /// The registry of shaders.
    pub shaders: &'a Arc<Registry>,
    /// The reason why an op with this number of operands must stay unfused; `None` if it may be fused.
    pub apart: &'a dyn Fn(&Op, usize) -> Option<String>,
}

impl Default for Fusion<'_> {
    /// No architecture; every op may be fused.
    fn default() -> Self {
        Fusion { architecture: "", shaders: Registry::generic(), apart: &|_, _| None }
    }
}

/// What a pass did with a node: its own name, and the index of the node that resulted or the reason why there is none.
type Attempt = (&'static str, Result<usize, String>);

/// Runs every pass and returns the outcomes.
pub fn all(graph: &mut Graph, fusion: &Fusion<'_>) -> Vec<Outcome> {
    let mut outcomes = run(graph, |graph, index| attention::attempt(graph, index, fusion));
    // Attention in parts reads other products.
    graph.drop_unneeded();
    // A single node has no neighbour to fuse with.
    if graph.nodes.len() < 2 {
        return outcomes;
    }
    let sought = Op::sought();
    outcomes.extend(run(graph, |graph, index| linear_epilogue::attempt(graph, index, fusion)));
    outcomes.extend(run(graph, |graph, index| definitions::attempts(graph, index, fusion, &sought)));
    outcomes.extend(run(graph, |graph, index| normed_integers::attempt(graph, index, fusion)));
    outcomes
}

/// Runs a pass on every node, in order, also on those that it makes after the node at hand.
fn run<A: IntoIterator<Item = Attempt>>(graph: &mut Graph, pass: impl Fn(&mut Graph, usize) -> A) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut index = 0;
    while index < graph.nodes.len() {
        let candidate = graph.nodes[index].name.clone();
        for (pass, done) in pass(graph, index) {
            outcomes.push(match done {
                Ok(place) => {
                    index = place;
                    Outcome::Fused { pass, node: graph.nodes[place].name.clone() }
                }
                Err(reason) => Outcome::Declined { pass, node: candidate.clone(), reason },
            });
        }
        index += 1;
    }
    outcomes
}
