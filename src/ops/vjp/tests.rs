//! The derivative of every op: which operands have a gradient, and its shape.

use serde_json::{Value, json};

use super::*;
use crate::ops::{Counts, Dim};

/// An op with a derivative: name, attributes, axes of the operands, and the places of those with a gradient.
type Row = (&'static str, Value, &'static [&'static [usize]], &'static [usize]);

fn rows() -> [Row; 58] {
    [
        ("activation", json!({"kind": "silu"}), &[&[2, 3, 4]], &[0]),
        (
            "attention",
            json!({"heads": 2, "kv_heads": 1, "head_dim": 4, "scale": 0.5}),
            &[&[7, 8], &[7, 4], &[7, 4], &[3], &[3]],
            &[0, 1, 2],
        ),
        (
            "attention",
            json!({"heads": 2, "kv_heads": 1, "head_dim": 4, "scale": 0.5, "dropout": 0.1}),
            &[&[7, 8], &[7, 4], &[7, 4], &[3], &[3], &[4]],
            &[0, 1, 2],
        ),
        ("attention_mask", json!({}), &[&[2, 3, 4, 5], &[2, 5]], &[0]),
        ("bias_gelu", json!({}), &[&[2, 3, 4], &[4]], &[0, 1]),
        ("binary", json!({"kind": "add"}), &[&[2, 3, 4], &[2, 3, 4]], &[0, 1]),
        ("binary", json!({"kind": "subtract"}), &[&[2, 3, 4], &[3, 1]], &[0, 1]),
        ("binary", json!({"kind": "multiply"}), &[&[2, 3, 1, 4, 5], &[2, 1, 1, 4, 1]], &[0, 1]),
        ("binary", json!({"kind": "divide"}), &[&[2, 3], &[]], &[0, 1]),
        ("binary_cross_entropy", json!({}), &[&[2, 3], &[2, 3]], &[0]),
        ("cast", json!({"to": "float32"}), &[&[2, 3]], &[0]),
        ("cast", json!({"to": "float16"}), &[&[2, 3]], &[0]),
        ("cross_entropy", json!({}), &[&[2, 3, 4], &[2, 3], &[4]], &[0]),
        ("dequantize_rows", json!({}), &[&[2, 3, 4], &[2, 3]], &[0]),
        ("dropout", json!({"p": 0.5, "seed": 1}), &[&[2, 3]], &[0]),
        ("dropout", json!({"p": 0.5, "seed": 1}), &[&[2, 3], &[4]], &[0]),
        ("embedding_sum", json!({}), &[&[2, 3], &[7, 4], &[2, 3], &[5, 4]], &[1, 3]),
        ("embedding_sum", json!({}), &[&[], &[7, 4]], &[1]),
        ("gated", json!({"kind": "silu"}), &[&[2, 3, 4]], &[0]),
        ("gated_linear", json!({"kind": "silu"}), &[&[2, 3, 4], &[5, 4], &[5, 4]], &[0, 1, 2]),
        ("layer_norm", json!({}), &[&[2, 3, 4], &[4], &[4]], &[0, 1, 2]),
        ("layer_norm_linear", json!({}), &[&[2, 3, 4], &[4], &[4], &[5, 4]], &[0, 1, 2, 3]),
        (
            "layer_norm_linear",
            json!({"bias": true, "activation": "relu"}),
            &[&[3, 4], &[4], &[4], &[5, 4], &[5]],
            &[0, 1, 2, 3, 4],
        ),
        ("linear", json!({}), &[&[2, 3, 4], &[5, 4]], &[0, 1]),
        ("linear", json!({"bias": true}), &[&[4], &[5, 4], &[5]], &[0, 1, 2]),
        ("linear", json!({"activation": "tanh"}), &[&[2, 3, 4], &[5, 4]], &[0, 1]),
        (
            "linear",
            json!({"bias": true, "activation": "tanh", "residual": "added"}),
            &[&[2, 3, 4], &[5, 4], &[5], &[2, 3, 5]],
            &[0, 1, 2, 3],
        ),
        ("linear", json!({"residual": "added"}), &[&[3, 4], &[5, 4], &[3, 5]], &[0, 1, 2]),
        ("matmul", json!({}), &[&[2, 3, 4, 5], &[2, 3, 5, 6]], &[0, 1]),
        ("matmul", json!({"transpose_b": true}), &[&[2, 4, 5], &[2, 6, 5]], &[0, 1]),
        ("matmul", json!({"transpose_a": true}), &[&[2, 5, 4], &[2, 5, 6]], &[0, 1]),
        ("matmul", json!({"transpose_a": true, "transpose_b": true}), &[&[5, 4], &[6, 5]], &[0, 1]),
        ("matmul", json!({}), &[&[2, 3, 4, 5], &[5, 6]], &[0, 1]),
        ("matmul", json!({"transpose_b": true}), &[&[2, 4, 5], &[6, 5]], &[0, 1]),
        ("matmul", json!({"transpose_a": true}), &[&[2, 3, 5, 4], &[5, 6]], &[0, 1]),
        ("matmul", json!({"transpose_a": true, "transpose_b": true}), &[&[2, 5, 4], &[6, 5]], &[0, 1]),
        ("normalize", json!({}), &[&[2, 3, 4]], &[0]),
        ("normalize", json!({"floor": "add"}), &[&[4]], &[0]),
        ("pool", json!({"modes": ["mean", "max"]}), &[&[7, 4], &[3], &[2]], &[0]),
        ("quantize_rows", json!({"kind": "ternary", "unpacked": true}), &[&[2, 3, 4]], &[0]),
        ("quantized_linear", json!({"bias": true}), &[&[2, 3, 4], &[2, 3], &[5, 4], &[5], &[5]], &[0, 2, 4]),
        ("reduce", json!({"axis": 1, "kind": "sum"}), &[&[2, 3, 4, 5]], &[0]),
        ("reduce", json!({"axis": 1, "kind": "sum"}), &[&[2, 3, 4, 5], &[2, 3]], &[0, 1]),
        ("reduce", json!({"axis": 2, "kind": "mean"}), &[&[2, 3, 4]], &[0]),
        ("reduce", json!({"axis": 1, "kind": "mean"}), &[&[2, 3, 4], &[2, 3]], &[0, 1]),
        ("reduce", json!({"axis": 0, "kind": "max"}), &[&[3, 4]], &[0]),
        ("reduce", json!({"axis": 0, "kind": "max"}), &[&[3, 4], &[3]], &[0]),
        ("reduce", json!({"axis": 1, "kind": "deviation"}), &[&[2, 3, 4]], &[0]),
        ("residual_layer_norm", json!({}), &[&[2, 4], &[2, 4], &[4], &[4]], &[0, 1, 2, 3]),
        ("residual_rms_norm", json!({}), &[&[2, 4], &[2, 4], &[4]], &[0, 1, 2]),
        ("rms_norm", json!({}), &[&[2, 3, 4], &[4]], &[0, 1]),
        ("rms_norm_rope", json!({}), &[&[2, 5, 3, 4], &[12], &[5, 2], &[5, 2]], &[0, 1]),
        ("rope", json!({}), &[&[2, 5, 3, 4], &[5, 2], &[5, 2]], &[0]),
        ("set_rows", json!({}), &[&[5, 4], &[2, 4], &[2]], &[0, 1]),
        ("softmax", json!({}), &[&[2, 3, 4], &[4]], &[0]),
        ("softmax_dropout", json!({"p": 0.5, "seed": 1}), &[&[2, 3, 4]], &[0]),
        ("weighted_sum", json!({}), &[&[2, 3, 4], &[2, 3]], &[0, 1]),
        ("weighted_sum", json!({"bias": true}), &[&[2, 3, 4], &[2, 3], &[4]], &[0, 1, 2]),
    ]
}

/// The names of an op's operands that have a gradient, in one of its forms; none for an op without a derivative.
pub(crate) fn with_gradients(name: &str) -> Vec<&'static str> {
    let named = |(name, attributes, _, places): Row| {
        let op = Op::from_attributes(name, attributes).unwrap();
        places.iter().map(|place| op.operand(*place).name).collect::<Vec<_>>()
    };
    let own = rows().into_iter().filter(|row| row.0 == name).map(named);
    own.max_by_key(Vec::len).unwrap_or_default()
}

#[test]
fn every_op_has_a_derivative_or_a_reason_for_none() {
    for name in Op::NAMES {
        let reason = WITHOUT.iter().find(|(without, _)| without == name);
        assert_eq!(with_gradients(name).is_empty(), reason.is_some(), "{name}");
    }
    assert!(WITHOUT.is_sorted() && WITHOUT.iter().all(|(name, _)| Op::NAMES.contains(name)));
}

#[test]
fn gradients_have_the_shapes_of_their_operands() {
    for (name, attributes, operands, places) in rows() {
        let op = Op::from_attributes(name, attributes.clone()).unwrap();
        let shape = |(place, axes): (usize, &&[usize])| {
            let mut shape = Shape::fixed(axes);
            shape.0.iter_mut().take(1).for_each(|first| *first = op.operand(place).counted.unwrap_or(*first));
            shape
        };
        let shapes: Vec<Shape> = operands.iter().enumerate().map(shape).collect();
        let shapes: Vec<&Shape> = shapes.iter().collect();
        let result = op.infer(&shapes).unwrap().remove(0);
        let row = format!("{name} {attributes}");
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
        assert_eq!((&found[..], vjp.gradients.len()), (places, shapes.len()), "{row}");
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
