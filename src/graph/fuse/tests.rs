//! Fused ops in graphs: where their definitions match, and why not elsewhere.

mod epilogues;
mod integers;

use super::*;
use crate::dtype::DType;
use crate::graph::{Plan, ValueId};
use crate::ops::definition::Origin;
use crate::ops::{
    Activation, ActivationKind, Binary, BinaryKind, Dim, GatedLinear, LayerNorm, Linear, ResidualLayerNorm, Shape,
};

const ROWS_OF: [usize; 2] = [40, 64];

/// The steps of a fused op, with inputs as operands.
fn apart(op: &Op, operands: &[&[usize]], stored: DType) -> Graph {
    let mut graph = Graph::new();
    for (place, axes) in operands.iter().enumerate() {
        graph.input(&format!("operand {place}"), Shape::fixed(axes), op.operand(place).dtype(stored));
    }
    let shapes: Vec<Shape> = operands.iter().map(|axes| Shape::fixed(axes)).collect();
    let mut results: Vec<ValueId> = Vec::new();
    for step in op.definition(&shapes.iter().collect::<Vec<_>>()).unwrap() {
        let terms: Vec<ValueId> = (step.operands.iter())
            .map(|term| {
                let id = match term.from {
                    Origin::Operand(place) => graph.inputs[place],
                    Origin::Step(place) => results[place],
                };
                match &term.shape {
                    Some(shape) if graph.value(id).shape != *shape => graph.view("view", id, shape.clone()),
                    _ => id,
                }
            })
            .collect();
        results.push(graph.node(step.op.name(), step.op, &terms).unwrap());
    }
    graph.outputs = results.split_off(results.len() - 1);
    graph
}

#[test]
fn every_fused_op_is_found_in_its_definition() {
    for (op, operands) in Op::fused_examples() {
        for stored in [DType::F32, DType::F16, DType::Bf16] {
            let graph = apart(&op, operands, stored);
            let (outputs, inputs) = (graph.outputs.clone(), graph.inputs.clone());
            let plan = Plan::new(graph);
            let [node] = &plan.graph.nodes[..] else { panic!("{op:?}: {plan}") };
            assert_eq!((&node.op, node.results.clone()), (&op, outputs), "{plan}");
            let read: Vec<ValueId> = node.operands.iter().map(|id| plan.graph.viewed(*id)).collect();
            assert_eq!(read, inputs, "{plan}");
            let pass = if let Op::Linear(_) = op { "linear_epilogue" } else { op.name() };
            assert!(plan.to_string().contains(&format!("{pass}: fused into")), "{plan}");
        }
    }
}

#[test]
fn ops_with_a_definition_have_an_example_of_it() {
    let composed = |name| Op::examples().iter().any(|(op, _)| op.name() == name && op.is_composed());
    // Products of integers are in `epilogues.rs`; nothing is replaced by `max_sim`, or by a composition.
    for name in Op::NAMES.iter().filter(|name| !["quantized_linear", "max_sim"].contains(name) && !composed(**name)) {
        let file = format!("src/ops/{name}.rs");
        let fused = std::fs::read_to_string(file).is_ok_and(|text| text.contains("fn definition(&self, "));
        assert_eq!(fused, Op::fused_examples().iter().any(|(op, _)| op.name() == *name), "{name}");
    }
}

#[test]
fn patterns_of_one_priority_end_with_different_ops() {
    let gelu = Activation::from(ActivationKind::GeluErf).into();
    for op in Op::examples().into_iter().map(|(op, _)| op).chain([gelu]) {
        let ends = Op::sought().into_iter().filter(|row| (row.tree.fits)(&op));
        let mut priorities: Vec<u32> = ends.map(|row| row.priority).collect();
        let all = priorities.len();
        priorities.sort_unstable();
        priorities.dedup();
        assert_eq!(priorities.len(), all, "{op:?} ends two patterns of one priority");
    }
}

fn declined(plan: &Plan, reason: &str) {
    assert!(plan.to_string().contains(reason), "{plan}");
}

#[test]
fn a_result_that_is_read_elsewhere_is_made() {
    for (op, operands) in Op::fused_examples() {
        let mut graph = apart(&op, operands, DType::F32);
        graph.outputs.push(graph.nodes[0].results[0]);
        let count = graph.nodes.len();
        let plan = Plan::new(graph);
        assert_eq!(plan.graph.nodes.len(), count, "{plan}");
        declined(&plan, "is read elsewhere too");
    }
}

#[test]
fn gates_are_found_on_either_side() {
    let op = Op::from(GatedLinear { kind: ActivationKind::GeluTanh });
    let mut graph = apart(&op, &[&ROWS_OF, &[96, 64], &[96, 64]], DType::F32);
    graph.nodes[2].operands.reverse();
    let plan = Plan::new(graph);
    assert_eq!((&plan.graph.nodes[0].op, &plan.graph.nodes[0].operands), (&op, &plan.graph.inputs), "{plan}");
    // Two products without a nonlinearity are not gates, nor are products of different rows.
    let mut plain = apart(&op, &[&ROWS_OF, &[96, 64], &[96, 64]], DType::F32);
    plain.nodes[0].op = Linear::default().into();
    declined(&Plan::new(plain), "gated_linear: declined at binary: these are no steps of gated_linear");
    let mut others = apart(&op, &[&ROWS_OF, &[96, 64], &[96, 64]], DType::F32);
    let rows = others.input("other rows", Shape::fixed(&ROWS_OF), DType::F32);
    others.nodes[1].operands[0] = rows;
    declined(&Plan::new(others), "gated_linear: declined at binary: gated_linear: 4 operands, expected 3: x, gate, up");
}

#[test]
fn a_residual_that_rides_on_a_product_stays_there() {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    let weight = graph.weight(vec!["w".into()], Shape::fixed(&[8, 8]));
    let vector = graph.weight(vec!["v".into()], Shape::fixed(&[8]));
    let y = graph.node("product", Linear::default(), &[x, weight]).unwrap();
    let y = graph.node("sum", Binary::from(BinaryKind::Add), &[y, x]).unwrap();
    let y = graph.node("norm", LayerNorm { eps: 1e-5 }, &[y, vector, vector]).unwrap();
    graph.outputs = vec![y];
    let plan = Plan::new(graph);
    let names: Vec<&str> = plan.graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(names, ["linear", "layer_norm"]);
    declined(&plan, "residual_layer_norm: declined at norm: a sum is part of product + sum");
    declined(&plan, "layer_norm_linear: declined at product + sum: it reads an input, not layer_norm");
}

#[test]
fn types_and_shaders_that_no_fused_kernel_has_are_left_alone() {
    let norm = Op::from(ResidualLayerNorm(LayerNorm { eps: 1e-5 }));
    let axes: [&[usize]; 4] = [&ROWS_OF, &ROWS_OF, &[64], &[64]];
    let mut mixed = apart(&norm, &axes, DType::F16);
    mixed.values[mixed.inputs[1].0].dtype = DType::F32;
    declined(&Plan::new(mixed), "residual is float32, expected float16");
    let own = |op: &Op, _| matches!(op, Op::LayerNorm(_)).then(|| "a shader of the user".into());
    let plan = Plan::with(apart(&norm, &axes, DType::F32), &Fusion { apart: &own, ..Fusion::default() }).unwrap();
    assert_eq!(plan.graph.nodes.len(), 2);
    declined(&plan, "residual_layer_norm: declined at layer_norm: a shader of the user");
    // A bias of another shape is a plain sum, followed by GELU.
    let mut graph = Graph::new();
    let [x, other] = ["x", "other"].map(|name| graph.input(name, Shape::fixed(&ROWS_OF), DType::F32));
    let y = graph.node("sum", Binary::from(BinaryKind::Add), &[x, other]).unwrap();
    let y = graph.node("gelu", Activation::from(ActivationKind::GeluErf), &[y]).unwrap();
    graph.outputs = vec![y];
    declined(&Plan::new(graph), "bias_gelu: declined at gelu: ");
}
