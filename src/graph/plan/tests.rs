//! Buffers, updates and types of plans.

use super::*;
use crate::ops::{
    Activation, ActivationKind, Binary, BinaryKind, Cast, EmbeddingSum, LayerNorm, LayerNormLinear, Linear, Normalize,
    QuantizeRows, SetRows,
};

#[test]
fn a_buffer_is_as_large_as_its_value() {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::vector(Dim::Fixed(40_000)), DType::F32);
    let y = graph.node("sum", Binary::from(BinaryKind::Add), &[x, x]).unwrap();
    graph.outputs = vec![y];
    assert_eq!(Plan::new(graph).buffer_bytes(Counts::default()), 160_000);
}

#[test]
fn values_whose_lives_overlap_never_share_a_buffer() {
    let mut graph = Graph::new();
    let mut x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    let weight = graph.weight(vec!["w".into()], Shape::fixed(&[8, 8]));
    for layer in 0..4 {
        let y = graph.node(&format!("product {layer}"), Linear::default(), &[x, weight]).unwrap();
        x = graph.node(&format!("norm {layer}"), Normalize::default(), &[y]).unwrap();
    }
    graph.outputs = vec![x];
    let plan = Plan::new(graph);
    // Two alternating buffers, and the output's own.
    assert_eq!(plan.buffers.len(), 3);
    assert_eq!(plan.narrow(), None);
    for node in &plan.graph.nodes {
        for operand in &node.operands {
            let (from, to) = (plan.storage[operand.0], plan.storage[node.results[0].0]);
            assert_ne!(from, to, "{} overwrites its operand", node.name);
        }
    }
}

#[test]
fn an_update_lies_where_its_operand_does_and_is_never_dropped() {
    let mut graph = Graph::new();
    let row = Shape::matrix(Dim::Fixed(1), 8);
    let table = graph.state("table", Shape::fixed(&[4, 8]), DType::F32);
    let at = graph.input("at", Shape::fixed(&[1]), DType::I32);
    let x = graph.input("x", row.clone(), DType::F32);
    let silu = Activation::from(ActivationKind::Silu);
    let y = graph.node("row", silu.clone(), &[x]).unwrap();
    let after = graph.node("write", SetRows {}, &[table, y, at]).unwrap();
    let error = graph.node("late", silu.clone(), &[table]).unwrap_err().to_string();
    assert_eq!(error, "late: table was updated by write");
    // A table owned by the caller is copied, and the copy is updated.
    let given = graph.input("given", Shape::fixed(&[4, 8]), DType::F32);
    let own = graph.node("write too", SetRows {}, &[given, y, at]).unwrap();
    let read = graph.node("read", silu, &[after]).unwrap();
    graph.outputs = vec![read, own];
    let plan = Plan::new(graph);
    assert_eq!((plan.storage[table.0], plan.storage[after.0]), (Storage::State(0), Storage::State(0)));
    assert!(matches!(plan.storage[own.0], Storage::Buffer(_)));
    let ops: Vec<&str> = plan.graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(ops, ["activation", "set_rows", "cast", "set_rows", "activation"]);
    assert!(plan.check_batches().unwrap_err().to_string().contains("table"));
    // No node reads the update, but the state persists to the next run.
    let mut graph = Graph::new();
    let table = graph.state("table", Shape::fixed(&[4, 8]), DType::F32);
    let (at, x) = (graph.input("at", Shape::fixed(&[1]), DType::I32), graph.input("x", row, DType::F32));
    graph.node("write", SetRows {}, &[table, x, at]).unwrap();
    assert_eq!(Plan::new(graph).graph.nodes.len(), 1);
}

#[test]
fn several_results_have_memory_of_their_own_and_one_that_nothing_reads_gives_it_back() {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::fixed(&[4, 8]), DType::F32);
    let results = graph.apply("quantise", QuantizeRows::default(), &[x]).unwrap();
    assert_eq!(graph.value(results[0]).dtype, DType::I8);
    let again = graph.apply("again", QuantizeRows::default(), &[x]).unwrap();
    graph.outputs = vec![results[0], again[0]];
    let plan = Plan::new(graph);
    assert_ne!(plan.storage[results[0].0], plan.storage[results[1].0]);
    assert_eq!(plan.storage[results[1].0], plan.storage[again[1].0], "both scales, one after the other");
    assert!(plan.to_string().contains("quantize_rows (x[4, 8]) -> int8[4, 8] Buffer(0), [4] Buffer(2)"), "{plan}");
}

#[test]
fn scratch_memory_is_no_value_that_lives() {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    let weight = graph.weight(vec!["w".into()], Shape::fixed(&[8, 8]));
    let vector = graph.weight(vec!["v".into()], Shape::fixed(&[8]));
    let layer =
        |graph: &mut Graph, x| graph.node("layer", LayerNormLinear::default(), &[x, vector, vector, weight]).unwrap();
    let first = layer(&mut graph, x);
    let second = layer(&mut graph, first);
    let sum = graph.node("sum", Binary::from(BinaryKind::Multiply), &[first, second]).unwrap();
    graph.outputs = vec![sum];
    let plan = Plan::new(graph);
    for (node, id) in plan.graph.nodes.iter().flat_map(|node| node.scratch.iter().map(move |id| (node, id))) {
        let scratch = plan.storage[id.0];
        let own = |id: &ValueId| plan.storage[id.0] == scratch;
        assert!(matches!(scratch, Storage::Buffer(_)) && !node.operands.iter().chain(&node.results).any(own));
    }
    // Two results share one buffer of two numbers per row; the output has its own.
    let counts = Counts::new(10, 1);
    assert_eq!((plan.buffers.len(), plan.buffer_bytes(counts)), (4, 4 * 10 * (8 + 8 + 2 + 8)));
    assert_eq!(plan.graph.work(&plan.graph.nodes[0], counts).bytes, 4 * (2 * 80 + 8 + 64 + 2 * 20));
    let flops: u64 = plan.graph.nodes.iter().map(|node| plan.graph.work(node, counts).flops).sum();
    assert_eq!((plan.flops(counts), plan.graph.flops(counts)), (flops, flops));
}

#[test]
fn a_narrow_plan_takes_half_the_memory_and_can_be_widened() {
    let mut graph = Graph::new();
    let ids = graph.input("ids", Shape::vector(Dim::Tokens), DType::U32);
    let table = graph.weight_as(DType::F16, vec!["t".into()], Shape::fixed(&[9, 8]));
    let rows = graph.node("rows", EmbeddingSum {}, &[ids, table]).unwrap();
    let weight = graph.weight_as(DType::F16, vec!["w".into()], Shape::fixed(&[8, 8]));
    let y = graph.node("product", Linear::default(), &[rows, weight]).unwrap();
    let y = graph.node("gelu", Activation::from(ActivationKind::GeluErf), &[y]).unwrap();
    let y = graph.node("sum", Binary::from(BinaryKind::Add), &[y, rows]).unwrap();
    let vector = graph.weight(vec!["v".into()], Shape::fixed(&[8]));
    let norm = graph.node("norm", LayerNorm { eps: 1e-5 }, &[y, vector, vector]).unwrap();
    let mut cast = graph.clone();
    cast.outputs = vec![cast.node("cast", Cast { to: DType::Bf16 }, &[norm]).unwrap()];
    let wide = Plan::new(cast).widened();
    assert_eq!(wide.graph.nodes.last().unwrap().op, Cast { to: DType::F32 }.into());
    graph.outputs = vec![norm];
    let plan = Plan::new(graph);
    assert!(plan.to_string().contains("linear (rows[T, 8], w[8, 8], rows[T, 8]) -> float16[T, 8]"), "{plan}");
    let wide = plan.widened();
    assert_eq!((plan.narrow(), wide.narrow()), (Some(DType::F16), None));
    let counts = Counts::new(10, 1);
    assert_eq!((plan.buffer_bytes(counts), wide.buffer_bytes(counts)), (3 * 160, 3 * 320));
    assert!(wide.graph.values.iter().all(|value| !value.dtype.is_narrow()));
    assert_eq!(wide.storage, plan.storage);
}
