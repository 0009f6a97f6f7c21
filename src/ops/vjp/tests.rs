//! The derivative of every op: which operands have a gradient, and its shape.

use serde_json::json;

use super::*;
use crate::ops::{Counts, Dim};

#[test]
fn every_op_has_a_derivative_or_a_reason_for_none() {
    for (op, (_, operands, gradients)) in Op::examples() {
        let name = op.name();
        let derived = op.no_derivative().is_none();
        assert!(derived || gradients.is_empty(), "{name} has gradients and a reason for none");
        assert!(operands.is_empty() || derived != gradients.is_empty(), "{name}: an example has axes and no gradient");
    }
    let derived = |name: &str| Op::examples().iter().any(|(op, row)| op.name() == name && !row.2.is_empty());
    let reasoned = |name: &str| Op::examples().iter().any(|(op, _)| op.name() == name && op.no_derivative().is_some());
    for name in Op::NAMES {
        assert!(derived(name) != reasoned(name), "{name} has no example with gradients and no reason for none");
    }
}

#[test]
fn gradients_have_the_shapes_of_their_operands() {
    for (op, (attributes, operands, places)) in Op::examples().into_iter().filter(|(_, row)| !row.2.is_empty()) {
        let shape = |(place, axes): (usize, &&[usize])| {
            let mut shape = Shape::fixed(axes);
            shape.0.iter_mut().take(1).for_each(|first| *first = op.operand(place).counted.unwrap_or(*first));
            shape
        };
        let shapes: Vec<Shape> = operands.iter().enumerate().map(shape).collect();
        let shapes: Vec<&Shape> = shapes.iter().collect();
        let result = op.infer(&shapes).unwrap().remove(0);
        let row = format!("{} {attributes}", op.name());
        let vjp = op.vjp(&shapes).unwrap_or_else(|| panic!("{row} has no derivative"));
        let filled = vjp.filled.iter().map(|(_, shape)| shape);
        let given: Vec<&Shape> = shapes.iter().copied().chain([&result, &result]).chain(filled).collect();
        let mut results: Vec<Shape> = Vec::new();
        let mut read = Vec::new();
        let mut seen = |term: &Term, results: &[Shape]| {
            let own = match term.from {
                Origin::Operand(place) => given[place].clone(),
                Origin::Step(place) => results[place].clone(),
            };
            read.push(term.from);
            let shape = term.shape.clone().unwrap_or(own.clone());
            assert_eq!(shape.elements(Counts::default()), own.elements(Counts::default()), "{row}");
            shape
        };
        for step in &vjp.steps {
            let terms: Vec<Shape> = step.operands.iter().map(|term| seen(term, &results)).collect();
            results.extend(step.op.infer(&terms.iter().collect::<Vec<_>>()).unwrap());
        }
        let found: Vec<usize> = (0..shapes.len()).filter(|place| vjp.gradients[*place].is_some()).collect();
        assert_eq!((&found[..], vjp.gradients.len()), (*places, shapes.len()), "{row}");
        for (gradient, shape) in vjp.gradients.iter().zip(&shapes) {
            assert!(gradient.as_ref().is_none_or(|term| seen(term, &results) == **shape), "{row}");
        }
        assert!((0..results.len()).all(|place| read.contains(&Origin::Step(place))), "{row}: nothing reads a step");
    }
}

#[test]
fn rows_may_be_counted_by_a_batch() {
    let (x, weight) = (Shape::matrix(Dim::Tokens, 4), Shape::fixed(&[5, 4]));
    let vjp = Op::from_attributes("linear", json!({})).unwrap().vjp(&[&x, &weight]).unwrap();
    let g = Shape::matrix(Dim::Tokens, 5);
    assert_eq!(vjp.steps[0].op.infer(&[&g, &weight]).unwrap(), std::slice::from_ref(&x));
    assert_eq!(vjp.steps[1].op.infer(&[&g, &x]).unwrap(), [weight]);
    let heads = Shape(vec![Dim::Tokens, Dim::Fixed(3), Dim::Fixed(4)]);
    let (columns, angles) = (Shape::fixed(&[3, 1]), Shape::matrix(Dim::Tokens, 2));
    for (name, attributes, operands) in [
        ("linear", json!({"activation": "relu", "residual": "added"}), vec![&x, &Shape::fixed(&[4, 4]), &x]),
        ("binary", json!({"kind": "multiply"}), vec![&heads, &columns]),
        ("reduce", json!({"axis": 0, "kind": "mean"}), vec![&heads]),
        ("normalize", json!({}), vec![&x]),
        ("rope", json!({}), vec![&heads, &angles, &angles]),
    ] {
        assert!(Op::from_attributes(name, attributes).unwrap().vjp(&operands).is_some(), "{name}");
    }
    // Heads that the result lacks have a gradient of zeros, and zeros that it adds have none.
    for number in [2, 5] {
        let rope = Op::from_attributes("rope", json!({"heads": number})).unwrap();
        let vjp = rope.vjp(&[&heads, &angles, &angles]).unwrap();
        assert_eq!(vjp.steps.last().unwrap().op, Op::from_attributes("rope", json!({"heads": 3})).unwrap());
    }
}

#[test]
fn a_fused_op_has_the_gradients_of_its_steps() {
    let (x, bias) = (Shape::fixed(&[2, 4]), Shape::fixed(&[4]));
    let vjp = Op::from_attributes("bias_gelu", json!({})).unwrap().vjp(&[&x, &bias]).unwrap();
    // The sum again, as GELU's derivative reads it; the result of the op is not read.
    let names: Vec<&str> = vjp.steps.iter().map(|step| step.op.name()).collect();
    assert_eq!(names, ["binary", "activation_backward", "reduce"]);
    assert!(!vjp.reads_result());
    let gradient = Term::whole(Origin::Step(1)).seen(x);
    assert_eq!(vjp.gradients, [Some(gradient), Some(Term::whole(Origin::Step(2)).seen(bias))]);
}
