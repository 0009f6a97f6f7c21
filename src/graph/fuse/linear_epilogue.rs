//! `linear` followed by `activation` or a sum becomes one `linear` with that epilogue.

use super::{Fusion, Outcome};
use crate::graph::{Graph, ValueId};
use crate::ops::{Binary, BinaryKind, Op, Residual};

const PASS: &str = "linear_epilogue";

/// Folds every activation and residual sum that directly follows a product into the product.
pub(super) fn run(graph: &mut Graph, fusion: &Fusion<'_>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut index = 0;
    while index < graph.nodes.len() {
        match fold(graph, index, fusion) {
            Some(Ok(())) => {
                // The candidate at `index` is gone; the next node moved into its place.
                outcomes.push(Outcome::Fused { pass: PASS, node: graph.nodes[index - 1].name.clone() });
                continue;
            }
            Some(Err(reason)) => {
                outcomes.push(Outcome::Declined { pass: PASS, node: graph.nodes[index].name.clone(), reason });
            }
            None => {}
        }
        index += 1;
    }
    outcomes
}

/// Folds node `index` into the product right before it; `None` when it is no candidate.
fn fold(graph: &mut Graph, index: usize, fusion: &Fusion<'_>) -> Option<Result<(), String>> {
    let node = &graph.nodes[index];
    if !matches!(node.op, Op::Activation(_) | Op::Binary(Binary { kind: BinaryKind::Add })) {
        return None;
    }
    if let Some(reason) = (fusion.apart)(&node.op, node.operands.len()) {
        return Some(Err(reason));
    }
    let Some(previous) = index.checked_sub(1).map(|i| &graph.nodes[i]) else {
        return Some(Err("no node before it".into()));
    };
    let Op::Linear(product) = &previous.op else {
        return Some(Err(format!("follows {}, not linear", previous.op.name())));
    };
    let Some(position) = node.operands.iter().position(|v| *v == previous.results[0]) else {
        return Some(Err("does not read the product before it".into()));
    };
    if graph.uses(previous.results[0]) > 1 {
        return Some(Err("the product is read elsewhere too".into()));
    }
    if product.residual == Residual::Added {
        return Some(Err("the product already ends with a residual".into()));
    }
    let mut product = product.clone();
    let mut extra: Option<ValueId> = None;
    match &node.op {
        Op::Activation(activation) => {
            if product.activation.is_some() {
                return Some(Err("the product already ends with an activation".into()));
            }
            if !activation.kind.ends_linear() {
                return Some(Err(format!("no product ends with {:?}", activation.kind)));
            }
            product.activation = Some(activation.kind);
        }
        _ => {
            let other = node.operands[1 - position];
            if graph.value(other).shape != graph.value(previous.results[0]).shape {
                return Some(Err("the other term has another shape".into()));
            }
            product.residual = Residual::Added;
            extra = Some(other);
        }
    }
    let (results, name) = (node.results.clone(), format!("{} + {}", previous.name, node.name));
    let fused = &mut graph.nodes[index - 1];
    fused.op = Op::Linear(product);
    fused.operands.extend(extra);
    fused.results = results;
    fused.name = name;
    graph.nodes.remove(index);
    Some(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::ops::{Activation, ActivationKind, Dim, Linear, Shape};

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
