//! Fusion: several nodes become one, by the patterns in the files of the fused ops ([`Sought`](crate::ops::Sought)). Every
//! candidate leaves a record.

mod matcher;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::shaders::Registry;
use super::{Graph, Node};
use crate::numerics::Numerics;
use crate::ops::Op;

/// The record of a pass at one candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The pass.
    pub pass: &'static str,
    /// The candidate, or the node of which it is a part now.
    pub node: String,
    /// What the pass did.
    pub done: Done,
}

/// What a pass did with a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// Several nodes became one.
    Fused,
    /// One node became several, for this reason.
    Split(String),
    /// Nothing: there was no reason to.
    Left,
    /// Nothing, for this reason.
    Declined(String),
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outcome { pass, node, done } = self;
        match done {
            Done::Fused => write!(f, "{pass}: fused into {node}"),
            Done::Split(reason) => write!(f, "{pass}: done at {node}: {reason}"),
            Done::Left => write!(f, "{pass}: left {node} as it is"),
            Done::Declined(reason) => write!(f, "{pass}: declined at {node}: {reason}"),
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
    /// What the numbers of the plan mean.
    pub numerics: Numerics,
}

impl Default for Fusion<'_> {
    /// No architecture; every op may be fused; the numbers of the device.
    fn default() -> Self {
        Fusion { architecture: "", shaders: Registry::generic(), apart: &|_, _| None, numerics: Numerics::Run }
    }
}

/// The passes whose fused ops have the bits of their steps on every device.
const EVERYWHERE: &[&str] = &["linear_epilogue"];

/// Seeks all patterns by their priorities; returns the records.
pub(super) fn all(graph: &mut Graph, fusion: &Fusion<'_>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    // A single node has no neighbour to fuse with.
    if graph.nodes.len() < 2 {
        return outcomes;
    }
    let mut reads = graph.reads();
    let mut sought = Op::sought();
    sought.retain(|row| fusion.numerics == Numerics::Run || EVERYWHERE.contains(&row.pass));
    sought.sort_by_key(|row| row.priority);
    for level in sought.chunk_by(|a, b| a.priority == b.priority) {
        let mut index = 0;
        while index < graph.nodes.len() {
            let Node { op, results, .. } = &graph.nodes[index];
            // Without results it is part of another now.
            if results.is_empty() {
                index += 1;
                continue;
            }
            if let Some(row) = level.iter().find(|row| (row.tree.fits)(op)) {
                let fused = matcher::fuse(graph, index, fusion, row, &mut reads);
                index = *fused.as_ref().unwrap_or(&index);
                let done = fused.map_or_else(Done::Declined, |_| Done::Fused);
                outcomes.push(Outcome { pass: row.pass, node: graph.nodes[index].name.clone(), done });
            }
            index += 1;
        }
    }
    graph.nodes.retain(|node| !node.results.is_empty());
    outcomes
}
