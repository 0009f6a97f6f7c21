use super::*;
use crate::ops::{Activation, ActivationKind, Attention, Dim, Softmax, SoftmaxBackward};

#[test]
fn gradients_that_meet_are_added_and_what_nothing_reads_has_zeros() {
    let mut graph = Graph::new();
    let x = graph.state("x", Shape::fixed(&[2, 4]), DType::F32);
    let other = graph.state("other", Shape::fixed(&[3]), DType::F32);
    let silu = Activation::from(ActivationKind::Silu);
    let first = graph.node("first", silu.clone(), &[x]).unwrap();
    let flat = graph.view("flat", x, Shape::fixed(&[8]));
    let second = graph.node("second", silu.clone(), &[flat]).unwrap();
    let second = graph.view("second", second, Shape::fixed(&[2, 4]));
    let y = graph.node("y", silu.clone(), &[first]).unwrap();
    let g = graph.filled(1.0, Shape::fixed(&[2, 4]));
    let from_first = graph.gradients(y, g, &[x, other]).unwrap();
    assert!(matches!(graph.value(from_first[1]).source, crate::graph::Source::Filled(0)));
    let before = graph.nodes.len();
    let unrelated = graph.gradients(second, g, &[first]).unwrap();
    assert_eq!((graph.nodes.len(), &graph.value(unrelated[0]).shape), (before, &Shape::fixed(&[2, 4])));
}

#[test]
fn a_long_reduction_in_two_nodes_has_the_gradient_of_one() {
    let mut graph = Graph::new();
    let x = graph.state("x", Shape::fixed(&[5000, 4]), DType::F32);
    let weights = graph.state("weights", Shape::fixed(&[5000]), DType::F32);
    let y = graph.node("y", Reduce::rows(ReduceKind::Mean), &[x, weights]).unwrap();
    assert_eq!(graph.nodes.len(), 2);
    let g = graph.filled(1.0, Shape::fixed(&[4]));
    let gradients = graph.gradients(y, g, &[x, weights]).unwrap();
    assert_eq!(graph.shapes(&gradients), [&Shape::fixed(&[5000, 4]), &Shape::fixed(&[5000])]);
    assert!(gradients.iter().all(|id| graph.producer(*id).is_some()));
}

#[test]
fn the_gradient_of_queries_keys_and_values_in_one_tensor_is_one() {
    let of = |bias: bool, heads: usize| {
        let (q_column, k_column, v_column) = (0, 8, 16);
        Attention {
            heads,
            kv_heads: heads,
            head_dim: 8 / heads,
            bias,
            q_column,
            k_column,
            v_column,
            ..Attention::default()
        }
    };
    let steps = |columns: usize, one: bool| {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, columns), DType::F32);
        let other = if one { x } else { graph.input("other", Shape::matrix(Dim::Tokens, columns), DType::F32) };
        let offsets = graph.input("offsets", Shape::vector(Dim::Boundaries), DType::U32);
        let y = graph.node("y", of(false, 2), &[x, x, other, offsets, offsets]).unwrap();
        let g = graph.input("g", Shape::matrix(Dim::Tokens, 8), DType::F32);
        let [by_x] = graph.gradients(y, g, &[x]).unwrap()[..] else { panic!() };
        assert_eq!(graph.value(by_x).shape, Shape::matrix(Dim::Tokens, columns));
        graph.nodes.iter().map(|node| node.op.name()).collect::<Vec<_>>()
    };
    assert_eq!(steps(24, true), ["attention", "attention_backward"]);
    assert_eq!(steps(25, true), ["attention", "attention_backward", "binary", "binary"]);
    assert_eq!(steps(24, false), ["attention", "attention_backward", "binary"]);

    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, 24), DType::F32);
    let offsets = graph.input("offsets", Shape::vector(Dim::Boundaries), DType::U32);
    let bias = graph.state("bias", Shape::fixed(&[2, 5]), DType::F32);
    let y = graph.node("y", of(true, 2), &[x, x, x, offsets, offsets, bias]).unwrap();
    let g = graph.input("g", Shape::matrix(Dim::Tokens, 8), DType::F32);
    assert!(graph.gradients(y, g, &[x]).is_ok());
    let error = graph.gradients(y, g, &[bias]).unwrap_err().to_string();
    assert!(error.contains("attention has no derivative in bias"), "{error}");
}

#[test]
fn an_op_without_a_derivative_is_named() {
    let mut graph = Graph::new();
    let x = graph.state("x", Shape::fixed(&[2, 4]), DType::F32);
    let p = graph.node("p", Softmax::default(), &[x]).unwrap();
    let y = graph.node("the slope", SoftmaxBackward {}, &[p, x]).unwrap();
    let g = graph.filled(1.0, Shape::fixed(&[2, 4]));
    let error = graph.gradients(y, g, &[x]).unwrap_err().to_string();
    assert!(
        error.contains("the slope") && error.contains("softmax_backward has no derivative: it is a derivative"),
        "{error}"
    );
    let error = graph.gradients(x, y, &[x]).map(|_| ());
    assert!(error.is_ok(), "a value is its own gradient");
}
