//! A norm, then its rows as integers, become one op, which also gives the norm's result where others read it.

use super::{Attempt, Fusion};
use crate::graph::{Graph, Node, Source, Value, ValueId};
use crate::ops::{LayerNormQuantizeRows, Op, QuantizeKind, QuantizeRows, RmsNormQuantizeRows};

const PASS: &str = "normed_integers";

/// Joins node `index`, which rounds rows, with the norm that computes them, in the norm's place.
pub(super) fn attempt(graph: &mut Graph, index: usize, fusion: &Fusion<'_>) -> Option<Attempt> {
    let Op::QuantizeRows(op) = graph.nodes[index].op.clone() else { return None };
    let plain = QuantizeRows { factors: op.factors, ..QuantizeRows::default() };
    (op.kind == QuantizeKind::Absmax).then(|| {
        let found = if op == plain { find(graph, index, fusion) } else { Err("it rounds otherwise".into()) };
        let replaced = found.map(|(place, node)| {
            graph.nodes[place] = node;
            graph.nodes.remove(index);
            place
        });
        (PASS, replaced)
    })
}

/// The norm's place, and what stands there instead.
fn find(graph: &Graph, index: usize, fusion: &Fusion<'_>) -> Result<(usize, Node), String> {
    let rounding = &graph.nodes[index];
    let x = rounding.operands[0];
    let Some((place, _)) = graph.producer(x) else { return Err("it reads an input, not a norm".into()) };
    let norm = &graph.nodes[place];
    let (factors, kept) = (rounding.operands.len() > 1, graph.uses(x) > 1);
    let op: Op = match &norm.op {
        Op::LayerNorm(norm) => LayerNormQuantizeRows { eps: norm.eps, factors, kept }.into(),
        Op::RmsNorm(norm) => RmsNormQuantizeRows { eps: norm.eps, factors, kept }.into(),
        op => return Err(format!("it reads {}, not a norm", op.name())),
    };
    if let Some(reason) = [norm, rounding].iter().find_map(|node| (fusion.apart)(&node.op, node.operands.len())) {
        return Err(reason);
    }
    let y = norm.results[0];
    if graph.value(x).shape != graph.value(y).shape {
        return Err("it reads the norm in another shape".into());
    }
    let operands = [&norm.operands[..], &rounding.operands[1..]].concat();
    let types: Vec<_> = operands.iter().map(|id| graph.value(*id).dtype).collect();
    op.check_types(&types, graph.value(y).dtype).map_err(|error| error.to_string())?;
    op.infer(&graph.shapes(&operands)).map_err(|error| error.to_string())?;
    let name = format!("{} + {}", norm.name, rounding.name);
    let results = rounding.results.iter().copied().chain(kept.then_some(y)).collect();
    Ok((place, Node { name, op, operands, results, scratch: Vec::new() }))
}

impl Graph {
    /// The same graph where every norm that gives integers gives its own result, too.
    pub(crate) fn with_normed_rows(mut self) -> Self {
        let mut nodes = std::mem::take(&mut self.nodes);
        for node in &mut nodes {
            let Some(kept) = kept(&mut node.op).filter(|kept| !**kept) else { continue };
            *kept = true;
            let Value { shape, dtype, .. } = self.value(node.operands[0]).clone();
            node.results.push(self.push(Value {
                name: format!("{} y", node.name),
                shape,
                dtype,
                source: Source::Node,
            }));
        }
        self.nodes = nodes;
        self
    }

    /// What a node of such a graph rounds by row, and the factors of its columns; `None` for one that rounds nothing.
    pub(crate) fn rounded_by(node: &Node) -> Option<(ValueId, Option<ValueId>)> {
        let factors = |given: bool| node.operands.last().copied().filter(|_| given);
        match &node.op {
            Op::QuantizeRows(op) => Some((node.operands[0], factors(op.factors))),
            Op::LayerNormQuantizeRows(op) => Some((*node.results.get(2)?, factors(op.factors))),
            Op::RmsNormQuantizeRows(op) => Some((*node.results.get(2)?, factors(op.factors))),
            _ => None,
        }
    }
}

/// Whether a norm that gives integers gives its own result.
fn kept(op: &mut Op) -> Option<&mut bool> {
    match op {
        Op::LayerNormQuantizeRows(op) => Some(&mut op.kept),
        Op::RmsNormQuantizeRows(op) => Some(&mut op.kept),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::Plan;
    use crate::ops::{Activation, ActivationKind, Dim, LayerNorm, RmsNorm, Shape};

    /// A norm of rows, and the rows' integers and scales.
    fn graph(columns: usize, rms: bool) -> (Graph, ValueId) {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, columns), DType::F16);
        let vector = graph.weight(vec!["v".into()], Shape::fixed(&[columns]));
        let y = match rms {
            true => graph.node("norm", RmsNorm { eps: 0.5 }, &[x, vector]),
            false => graph.node("norm", LayerNorm { eps: 0.5 }, &[x, vector, vector]),
        };
        let y = y.unwrap();
        let op = QuantizeRows { factors: true, ..QuantizeRows::default() };
        graph.outputs = graph.apply("integers", op, &[y, vector]).unwrap();
        (graph, y)
    }

    #[test]
    fn a_norm_gives_integers_and_what_others_read() {
        for rms in [false, true] {
            let (alone, y) = graph(8, rms);
            let (mut read, results) = (alone.clone(), alone.outputs.clone());
            let relu = read.node("relu", Activation::from(ActivationKind::Relu), &[y]).unwrap();
            read.outputs.push(relu);
            for (graph, kept) in [(alone, false), (read, true)] {
                let plan = Plan::new(graph);
                let node = &plan.graph.nodes[0];
                let expected: Op = match rms {
                    true => RmsNormQuantizeRows { eps: 0.5, factors: true, kept }.into(),
                    false => LayerNormQuantizeRows { eps: 0.5, factors: true, kept }.into(),
                };
                assert_eq!(node.op, expected, "{plan}");
                let expected: Vec<ValueId> = results.iter().copied().take(2).chain(kept.then_some(y)).collect();
                assert_eq!(node.results, expected);
                assert_eq!(plan.graph.nodes.len(), 1 + usize::from(kept));
                let given = plan.graph.clone().with_normed_rows().nodes.remove(0);
                let (rows, factors) = Graph::rounded_by(&given).unwrap();
                assert_eq!((rows == y, factors), (kept, node.operands.last().copied()));
                assert!(plan.to_string().contains("normed_integers: fused into norm + integers"), "{plan}");
            }
        }
    }

    #[test]
    fn other_rows_stay_apart() {
        let declined = |graph: Graph, reason: &str| {
            let plan = Plan::new(graph);
            assert!(plan.to_string().contains(reason), "{plan}");
        };
        declined(graph(6, false).0, "x has shape [T, 6], expected [..., N], N a positive multiple of 4");
        let (mut seen, y) = graph(8, true);
        seen.nodes[1].operands[0] = seen.view("halves", y, Shape(vec![Dim::Tokens, Dim::Fixed(2), Dim::Fixed(4)]));
        declined(seen, "it reads the norm in another shape");
        let (mut at_random, _) = graph(8, true);
        at_random.nodes[1].op = QuantizeRows { factors: true, seed: Some(1), ..QuantizeRows::default() }.into();
        declined(at_random, "it rounds otherwise");
        let (own, _) = graph(8, true);
        let apart = |op: &Op, _| matches!(op, Op::QuantizeRows(_)).then(|| "a shader of the user".into());
        let plan = Plan::with(own, &Fusion { apart: &apart, ..Fusion::default() });
        assert!(plan.to_string().contains("normed_integers: declined at integers: a shader of the user"), "{plan}");
    }
}
