//! Norms that give integers.

use super::*;
use crate::ops::{LayerNormQuantizeRows, QuantizeRows, RmsNorm, RmsNormQuantizeRows};

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
                true => RmsNormQuantizeRows { norm: RmsNorm { eps: 0.5 }, factors: true, kept }.into(),
                false => LayerNormQuantizeRows { norm: LayerNorm { eps: 0.5 }, factors: true, kept }.into(),
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
    declined(seen, "rms_norm_quantize_rows: weight has shape [8], expected [4] (last axis of x)");
    let (mut at_random, _) = graph(8, true);
    at_random.nodes[1].op = QuantizeRows { factors: true, seed: Some(1), ..QuantizeRows::default() }.into();
    declined(at_random, "these are no steps of normed_integers");
    let (own, _) = graph(8, true);
    let apart = |op: &Op, _| matches!(op, Op::QuantizeRows(_)).then(|| "a shader of the user".into());
    let plan = Plan::with(own, &Fusion { apart: &apart, ..Fusion::default() }).unwrap();
    assert!(plan.to_string().contains("normed_integers: declined at integers: a shader of the user"), "{plan}");
}
