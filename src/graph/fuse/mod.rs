//! Passes that replace several nodes by one. Each says what it fused and why it declined elsewhere.

mod linear_epilogue;

use super::Graph;

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

/// Runs every pass and tells what each did.
pub fn all(graph: &mut Graph) -> Vec<Outcome> {
    linear_epilogue::run(graph)
}
