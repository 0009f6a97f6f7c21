//! Passes that replace several nodes by one. Each reports what it fused and why it declined a candidate.

mod attention;
mod definitions;
mod linear_epilogue;

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

/// Runs every pass and returns the outcomes.
pub fn all(graph: &mut Graph, fusion: &Fusion<'_>) -> Vec<Outcome> {
    let mut outcomes = attention::run(graph, fusion);
    outcomes.extend(linear_epilogue::run(graph, fusion));
    outcomes.extend(definitions::run(graph, fusion));
    outcomes
}
