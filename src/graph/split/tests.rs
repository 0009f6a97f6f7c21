use super::*;
use crate::dtype::DType;
use crate::graph::{Plan, Storage};
use crate::ops::{Counts, Linear, Rope};
use crate::tensor::{Part, Recipe};

const HEADS: usize = 4;
const GROUPS: usize = 2;
const WIDE: usize = 6;
const COLUMNS: [(&str, usize); 3] = [("q", HEADS * WIDE), ("k", GROUPS * WIDE), ("v", GROUPS * WIDE)];

/// The tensors of a product.
fn parts(names: &[(&str, usize)], end: &str, inner: &[usize]) -> Vec<Part> {
    let part = |(name, rows): &(&str, usize)| Part::new(format!("{name}.{end}"), &[&[*rows], inner].concat(), vec![]);
    names.iter().map(part).collect()
}

fn linear(graph: &mut Graph, name: &str, x: ValueId, names: &[(&str, usize)]) -> ValueId {
    let (inner, columns) = (graph.value(x).shape.columns(), names.iter().map(|(_, rows)| rows).sum());
    let weight = graph.weight(parts(names, "weight", &[inner]), Shape::fixed(&[columns, inner]));
    let bias = graph.weight(parts(names, "bias", &[]), Shape::fixed(&[columns]));
    graph.node(name, Linear { bias: true, ..Linear::default() }, &[x, weight, bias]).unwrap()
}

/// Attention of a joint product with the attributes of `with`, with queries and keys turned if `rotary`, and what
/// follows.
fn graph(names: &[(&str, usize)], rotary: bool, with: Attention) -> Graph {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    let offsets = graph.input("offsets", Shape::vector(Dim::Boundaries), DType::U32);
    let qkv = linear(&mut graph, "product", x, names);
    let mut both = qkv;
    if rotary {
        let angles = Shape::matrix(Dim::Tokens, WIDE / 2);
        let [cos, sin] = ["cos", "sin"].map(|name| graph.input(name, angles.clone(), DType::F32));
        let heads = Shape(vec![Dim::Tokens, Dim::Fixed(HEADS + 2 * GROUPS), Dim::Fixed(WIDE)]);
        let heads = graph.view("heads", qkv, heads);
        let turned = graph.node("turned", Rope { heads: Some(HEADS + GROUPS) }, &[heads, cos, sin]).unwrap();
        both = graph.view("rows", turned, Shape::matrix(Dim::Tokens, (HEADS + GROUPS) * WIDE));
    }
    let op = Attention {
        heads: HEADS,
        kv_heads: GROUPS,
        head_dim: WIDE,
        scale: 0.5,
        k_column: HEADS * WIDE,
        v_column: (HEADS + GROUPS) * WIDE,
        ..with
    };
    let mut operands = vec![both, both, qkv, offsets, offsets];
    if op.bias {
        operands.push(graph.weight(vec!["biases".into()], Shape::fixed(&[HEADS, 7])));
    }
    if op.distances.is_some() {
        operands.push(graph.weight(vec!["distances".into()], Shape::fixed(&[7, GROUPS * WIDE])));
    }
    let mixed = graph.node("attention", op, &operands).unwrap();
    let y = linear(&mut graph, "last", mixed, &[("o", 8)]);
    graph.outputs = vec![y];
    graph
}

fn apart(op: &Op, _operands: usize) -> Option<String> {
    matches!(op, Op::AttentionOutput(op) if op.architecture == "mine").then(|| "a reason".into())
}

fn plan(graph: Graph, architecture: &str) -> Plan {
    Plan::with(graph, &Fusion { architecture, apart: &apart, ..Fusion::default() }).unwrap()
}

fn names(plan: &Plan) -> Vec<&'static str> {
    plan.graph.nodes.iter().map(|node| node.op.name()).collect()
}

#[test]
fn what_must_stay_apart_is_taken_apart_and_said_so() {
    let plan = plan(graph(&COLUMNS, false, Attention { causal: true, ..Attention::default() }), "mine");
    let expected = ["linear", "linear", "linear", "attention_scores", "softmax", "attention_output", "linear"];
    assert_eq!(names(&plan), expected);
    let text = plan.to_string();
    assert!(text.contains("split: done at attention: a reason\n"), "{text}");
    assert!(text.contains("-> [B, 4, S, S] as ") && text.contains("-> [B, S, 4, 6] as "), "{text}");
    assert!(text.contains("texts of one length S") && !text.contains("Buffer"), "{text}");
    let shape =
        |node: usize, counts| -> Vec<usize> { plan.graph.value(plan.graph.nodes[node].results[0]).shape.sizes(counts) };
    let counts = Counts::new(15, 3);
    assert_eq!((shape(1, counts), shape(3, counts)), (vec![15, 12], vec![3, 4, 5, 5]));
    assert_eq!((shape(5, counts), shape(6, counts)), (vec![3, 5, 4, 6], vec![15, 8]));
    let Op::Softmax(softmax) = &plan.graph.nodes[4].op else { panic!() };
    assert!(softmax.causal);
    assert!(plan.storage.iter().all(|storage| !matches!(storage, Storage::Buffer(_))));
    // The next product reads the view of the result.
    let read = plan.graph.nodes[6].operands[0];
    assert_eq!(plan.graph.viewed(read), plan.graph.nodes[5].results[0]);
    assert_eq!(plan.graph.last_uses()[plan.graph.nodes[2].results[0].0], 5, "the values live until the last op");
}

#[test]
fn others_stay_fused() {
    let whole = Plan::new(graph(&COLUMNS, false, Attention::default()));
    assert_eq!(whole.graph.nodes.len(), 3);
    assert!(whole.to_string().contains("split: left attention as it is\n"), "{whole}");
    assert_eq!(plan(graph(&COLUMNS, false, Attention::default()), "other").graph.nodes.len(), 3);
}

#[test]
fn a_weight_of_one_tensor_is_cut_by_rows() {
    let plan = plan(graph(&[("qkv", 48)], false, Attention::default()), "mine");
    let rows = plan.graph.nodes[..3].iter().map(|node| {
        let Source::Weight(weight) = &plan.graph.value(node.operands[1]).source else { panic!() };
        weight.parts[0].recipe.clone()
    });
    let expected = [0..24, 24..36, 36..48].map(|rows| vec![Recipe::Rows(rows)]);
    assert_eq!(rows.collect::<Vec<_>>(), expected);
}

#[test]
fn turned_queries_and_keys_are_turned_separately() {
    let plan = plan(graph(&[("qk", 36), ("v", 12)], true, Attention::default()), "mine");
    let turned = ["linear", "rope"];
    let rest = ["linear", "attention_scores", "softmax", "attention_output", "linear"];
    assert_eq!(names(&plan), [&turned[..], &turned, &rest].concat());
}

#[test]
fn caps_windows_and_biases_are_an_op_before_the_softmax() {
    let window = Attention { window: 3, global_tokens: 1, ..Attention::default() };
    let capped = Attention { soft_cap: 2.0, ..Attention::default() };
    let biased = Attention { bias: true, causal: true, ..Attention::default() };
    for with in [window, capped, biased] {
        let plan = plan(graph(&COLUMNS, false, with.clone()), "mine");
        assert_eq!(names(&plan)[3..6], ["attention_scores", "attention_bias", "softmax"]);
        let node = &plan.graph.nodes[4];
        let Op::AttentionBias(op) = &node.op else { panic!() };
        assert_eq!(
            (op.soft_cap, op.window, op.global_tokens, node.operands.len()),
            (with.soft_cap, with.window, with.global_tokens, 1 + usize::from(with.bias))
        );
        let Op::AttentionOutput(output) = &plan.graph.nodes[6].op else { panic!() };
        assert_eq!((output.window, output.global_tokens), (with.window, with.global_tokens));
        assert_eq!(plan.graph.value(node.results[0]).shape.to_string(), "[B, 4, S, S]");
        // A run has the sizes of its texts.
        let sized = plan.at(Counts::new(10, 2)).unwrap();
        assert_eq!(sized.graph.value(sized.graph.nodes[4].results[0]).shape, Shape::fixed(&[2, 4, 5, 5]));
    }
}

#[test]
fn what_has_no_parts_stays_fused_and_is_said_so() {
    let distances = Attention { distances: Some([Some(0), None]), ..Attention::default() };
    let aligned = Attention { align_end: true, ..Attention::default() };
    let window = Attention { window: 3, ..Attention::default() };
    for (graph, fault) in [
        (graph(&COLUMNS, false, distances), "its scores have terms by distance and content"),
        (graph(&COLUMNS, false, aligned), "its positions count from the last key"),
        (cross(window), "its window may hide all keys of another sequence"),
    ] {
        let before = names(&Plan::new(graph.clone()));
        let plan = plan(graph, "mine");
        assert!(before.contains(&"attention") && names(&plan) == before);
        let text = plan.to_string();
        assert!(text.contains(&format!("split: declined at attention: {fault}, although a reason\n")), "{text}");
    }
}

/// Attention of a product to a product of a second sequence, with the attributes of `with`.
fn cross(with: Attention) -> Graph {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
    let states = graph.input("states", Shape::matrix(Dim::Counted(1), 5), DType::F32);
    let [own, other] = ["own", "other"].map(|name| graph.input(name, Shape::vector(Dim::Boundaries), DType::U32));
    let q = linear(&mut graph, "queries", x, &COLUMNS[..1]);
    let kv = linear(&mut graph, "keys and values", states, &COLUMNS[1..]);
    let heads = Attention { heads: HEADS, kv_heads: GROUPS, head_dim: WIDE, v_column: GROUPS * WIDE, ..with };
    let mixed = graph.node("attention", heads, &[q, kv, kv, own, other]).unwrap();
    graph.outputs = vec![mixed];
    graph
}

#[test]
fn keys_of_a_second_sequence_have_a_length_of_their_own() {
    let plan = plan(cross(Attention { causal: true, ..Attention::default() }), "mine");
    assert_eq!(names(&plan), ["linear", "linear", "linear", "attention_scores", "softmax", "attention_output"]);
    let shape = |node: usize| plan.graph.value(plan.graph.nodes[node].results[0]).shape.clone();
    assert_eq!((shape(3).to_string(), shape(5).to_string()), ("[B, 4, S, S1]".into(), "[B, S, 4, 6]".into()));
    assert_eq!(shape(3).sizes(Counts::new(10, 2).with(1, 14)), [2, 4, 5, 7]);
    assert!(plan.to_string().contains("texts of one length S and S1\n"), "{plan}");
    let [own, other] = [plan.graph.inputs[2], plan.graph.inputs[3]];
    assert_eq!(plan.graph.lengths, [(Dim::Tokens, own), (Dim::Counted(1), other)]);
}

#[test]
fn a_product_that_others_read_stays() {
    let mut graph = graph(&COLUMNS, false, Attention::default());
    let product = graph.nodes[0].results[0];
    graph.outputs.push(product);
    let plan = plan(graph, "mine");
    assert_eq!(names(&plan)[..4], ["linear"; 4]);
    assert_eq!(plan.graph.outputs[1], product);
}
