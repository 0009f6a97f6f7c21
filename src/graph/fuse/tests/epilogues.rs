//! Products that end with activations and sums.

use super::*;
use crate::ops::{Normalize, QuantizedLinear, Residual};

fn product(graph: &mut Graph, x: ValueId) -> ValueId {
    let weight = graph.weight(vec!["w".into()], Shape::fixed(&[8, 8]));
    graph.node("product", Linear::default(), &[x, weight]).unwrap()
}

#[test]
fn activation_and_residual_ride_on_the_product() {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    let y = product(&mut graph, x);
    let y = graph.node("gelu", Activation::from(ActivationKind::GeluErf), &[y]).unwrap();
    let y = graph.node("sum", Binary::from(BinaryKind::Add), &[x, y]).unwrap();
    graph.outputs = vec![y];
    all(&mut graph, &Fusion::default());
    assert_eq!(graph.nodes.len(), 1);
    let Op::Linear(linear) = &graph.nodes[0].op else { panic!("not a product") };
    assert_eq!(linear.activation, Some(ActivationKind::GeluErf));
    assert_eq!(linear.residual, Residual::Added);
    assert_eq!((graph.nodes[0].operands.len(), graph.nodes[0].operands[2]), (3, x));
    assert_eq!(graph.nodes[0].results, [y]);
}

#[test]
fn a_product_takes_its_sum_wherever_it_stands() {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    let [first, second] = [0, 1].map(|_| product(&mut graph, x));
    let norm = graph.node("norm", Normalize::default(), &[x]).unwrap();
    let gelu = graph.node("gelu", Activation::from(ActivationKind::GeluErf), &[first]).unwrap();
    let both = graph.node("both", Binary::from(BinaryKind::Add), &[gelu, second]).unwrap();
    let y = graph.node("sum", Binary::from(BinaryKind::Add), &[norm, both]).unwrap();
    graph.outputs = vec![y];
    let outcomes = all(&mut graph, &Fusion::default());
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    // Here the activation's product is the later one.
    assert_eq!(names, ["product", "norm", "product + gelu + both", "sum"]);
    assert_eq!(graph.nodes[2].operands[2], second);
    let last = outcomes.iter().rfind(|outcome| outcome.pass == "linear_epilogue").unwrap().to_string();
    assert!(last.contains("it reads normalize, not linear; linear is part of product + gelu + both"), "{last}");
}

#[test]
fn a_product_read_twice_is_left_alone() {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    let y = product(&mut graph, x);
    let z = graph.node("gelu", Activation::from(ActivationKind::GeluErf), &[y]).unwrap();
    graph.outputs = vec![y, z];
    let outcomes = all(&mut graph, &Fusion::default());
    let declined = |pass: &str| outcomes.iter().find(|outcome| outcome.pass == pass).unwrap().done.clone();
    assert_eq!(declined("linear_epilogue"), Done::Declined("the result of product is read elsewhere too".into()));
    assert_eq!(graph.nodes.len(), 2);
}

#[test]
fn what_the_epilogue_does_not_know_is_left_alone() {
    let declined = |op: Op, shape: Shape| {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
        let other = graph.input("other", shape, DType::F32);
        let y = product(&mut graph, x);
        let operands = if matches!(op, Op::Binary(_)) { vec![y, other] } else { vec![y] };
        let z = graph.node("after", op, &operands).unwrap();
        graph.outputs = vec![z];
        all(&mut graph, &Fusion::default());
        assert_eq!(graph.nodes.len(), 2);
    };
    let rows = || Shape::matrix(Dim::Tokens, 8);
    declined(Activation { kind: ActivationKind::LeakyRelu, a: 0.01, b: 1.0 }.into(), rows());
    declined(Activation::from(ActivationKind::Softplus).into(), rows());
    declined(Binary::from(BinaryKind::Subtract).into(), rows());
    declined(Binary::from(BinaryKind::Add).into(), Shape::fixed(&[8]));
}

#[test]
fn products_of_integers_take_both() {
    let mut graph = Graph::new();
    let q = graph.input("q", Shape::matrix(Dim::Tokens, 8), DType::I8);
    let scale = graph.input("scale", Shape::vector(Dim::Tokens), DType::F32);
    let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    let weight = graph.weight_as(DType::I8, vec!["w".into()], Shape::fixed(&[8, 8]));
    let scales = graph.weight(vec!["s".into()], Shape::fixed(&[8]));
    let y = graph.node("product", QuantizedLinear::default(), &[q, scale, weight, scales]).unwrap();
    let y = graph.node("gelu", Activation::from(ActivationKind::GeluErf), &[y]).unwrap();
    graph.outputs = vec![graph.node("sum", Binary::from(BinaryKind::Add), &[x, y]).unwrap()];
    all(&mut graph, &Fusion::default());
    let activation = Some(ActivationKind::GeluErf);
    let op = QuantizedLinear { activation, residual: Residual::Added, ..QuantizedLinear::default() };
    assert_eq!((graph.nodes.len(), &graph.nodes[0].op), (1, &op.into()));
    assert_eq!(graph.nodes[0].operands, [q, scale, weight, scales, x]);
}
