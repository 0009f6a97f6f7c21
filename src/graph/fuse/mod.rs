//! Passes that replace several nodes by one. Each says what it fused and why it declined elsewhere.

mod attention;
mod definitions;
mod linear_epilogue;

use std::sync::Arc;

use super::Graph;
use super::shaders::Registry;
use crate::ops::Op;

/// What a pass did at one candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The candidate became one node.
    Fused {
        /// The pass.
        pass: &'static str,
        /// The node that stands for all.
        node: String,
    },
    /// The candidate stays as it was.
    Declined {
        /// The pass.
        pass: &'static str,
        /// The node looked at.
        node: String,
        /// Why.
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

/// For whom a graph is fused.
#[derive(Clone, Copy)]
pub struct Fusion<'a> {
    /// Architecture or `model_type`; empty for none.
    pub architecture: &'a str,
    /// Which shader serves whom.
    pub shaders: &'a Arc<Registry>,
    /// Why an op with so many operands must stay a step of its own; `None` where nothing speaks against fusing it.
    pub apart: &'a dyn Fn(&Op, usize) -> Option<String>,
}

impl Default for Fusion<'_> {
    /// For no architecture, and nothing must stay apart.
    fn default() -> Self {
        Fusion { architecture: "", shaders: Registry::generic(), apart: &|_, _| None }
    }
}

/// Runs every pass and tells what each did.
pub fn all(graph: &mut Graph, fusion: &Fusion<'_>) -> Vec<Outcome> {
    let mut outcomes = attention::run(graph, fusion);
    outcomes.extend(linear_epilogue::run(graph, fusion));
    outcomes.extend(definitions::run(graph, fusion));
    outcomes
}
