//! `linear` or `quantized_linear` followed by `activation` or a sum becomes one product with that epilogue.

use super::definitions::{Found, producer, replace};
use super::{Attempt, Fusion};
use crate::graph::{Graph, ValueId};
use crate::ops::{ActivationKind, Binary, BinaryKind, Op, Residual};

const PASS: &str = "linear_epilogue";

/// Folds an activation or a residual sum into the product that it reads.
pub(super) fn attempt(graph: &mut Graph, index: usize, fusion: &Fusion<'_>) -> Option<Attempt> {
    let ends = matches!(graph.nodes[index].op, Op::Activation(_) | Op::Binary(Binary { kind: BinaryKind::Add }));
    ends.then(|| (PASS, find(graph, index, fusion).and_then(|found| replace(graph, index, found))))
}

/// The product with node `index` as its epilogue, or the reason why there is none. If both terms of a sum are products,
/// the later one takes the sum.
fn find(graph: &Graph, index: usize, fusion: &Fusion<'_>) -> Result<Found, String> {
    let node = &graph.nodes[index];
    if let Some(reason) = (fusion.apart)(&node.op, node.operands.len()) {
        return Err(reason);
    }
    let (mut found, mut reasons) = (Vec::new(), Vec::new());
    for (position, id) in node.operands.iter().enumerate() {
        let other = node.operands.iter().copied().nth(1 - position);
        match with_epilogue(graph, &node.op, *id, other) {
            Ok((place, op)) => found.push((place, op, other)),
            Err(reason) => reasons.push(reason),
        }
    }
    let Some((place, op, other)) = found.into_iter().max_by_key(|(place, _, _)| *place) else {
        return Err(reasons.join("; "));
    };
    let operands = graph.nodes[place].operands.iter().copied().chain(other);
    let operands = operands.map(|id| (id, graph.value(id).shape.clone())).collect();
    Ok(Found { op, operands, places: vec![place, index] })
}

/// What a product ends with.
fn ends(product: &mut Op) -> Option<(&mut Option<ActivationKind>, &mut Residual)> {
    match product {
        Op::Linear(op) => Some((&mut op.activation, &mut op.residual)),
        Op::QuantizedLinear(op) => Some((&mut op.activation, &mut op.residual)),
        _ => None,
    }
}

/// The index of the product that computes a value, and the product with `epilogue`, which adds `other` if present.
fn with_epilogue(graph: &Graph, epilogue: &Op, id: ValueId, other: Option<ValueId>) -> Result<(usize, Op), String> {
    let place = producer(graph, id, "linear", |op| matches!(op, Op::Linear(_) | Op::QuantizedLinear(_)))?;
    let mut product = graph.nodes[place].op.clone();
    let Some((own_activation, residual)) = ends(&mut product) else { return Err("it reads no product".into()) };
    if graph.viewed(id) != id {
        return Err("it reads the product in another shape".into());
    }
    if *residual == Residual::Added {
        return Err("the product already ends with a residual".into());
    }
    if let Op::Activation(activation) = epilogue {
        if own_activation.is_some() {
            return Err("the product already ends with an activation".into());
        }
        if !activation.kind.ends_linear() {
            return Err(format!("no product ends with {:?}", activation.kind));
        }
        *own_activation = Some(activation.kind);
    } else {
        if other.is_none_or(|other| graph.value(other).shape != graph.value(id).shape) {
            return Err("the other term has another shape".into());
        }
        *residual = Residual::Added;
    }
    Ok((place, product))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::fuse::{self, Outcome};
    use crate::ops::{Activation, Dim, Linear, Normalize, Shape};

    fn run(graph: &mut Graph, fusion: &Fusion<'_>) -> Vec<Outcome> {
        fuse::run(graph, |graph, index| attempt(graph, index, fusion))
    }

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
        run(&mut graph, &Fusion::default());
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
        let outcomes = run(&mut graph, &Fusion::default());
        let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
        // Here the activation's product is the later one.
        assert_eq!(names, ["product", "norm", "product + gelu + both", "sum"]);
        assert_eq!(graph.nodes[2].operands[2], second);
        let last = outcomes.last().unwrap().to_string();
        assert!(last.contains("it reads normalize, not linear; the product already ends with a residual"), "{last}");
    }

    #[test]
    fn a_product_read_twice_is_left_alone() {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
        let y = product(&mut graph, x);
        let z = graph.node("gelu", Activation::from(ActivationKind::GeluErf), &[y]).unwrap();
        graph.outputs = vec![y, z];
        let outcomes = run(&mut graph, &Fusion::default());
        assert!(matches!(&outcomes[..], [Outcome::Declined { reason, .. }] if reason.contains("elsewhere")));
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
            run(&mut graph, &Fusion::default());
            assert_eq!(graph.nodes.len(), 2);
        };
        let rows = || Shape::matrix(Dim::Tokens, 8);
        declined(Activation { kind: ActivationKind::LeakyRelu, a: 0.01, b: 1.0 }.into(), rows());
        declined(Activation::from(ActivationKind::Softplus).into(), rows());
        declined(Binary::from(BinaryKind::Subtract).into(), rows());
        declined(Binary::from(BinaryKind::Add).into(), Shape::fixed(&[8]));
    }
}
