//! Expansion of `attention` into scores, softmax and weighted sums where one of them must stay unfused.
//!
//! The three ops do not support texts of different lengths, so after expansion texts of one length run at a time:
//! [`Dim::Length`]. The joint product of queries, keys and values becomes three products.

use super::{Attempt, Fusion};
use crate::graph::{Graph, Source, ValueId};
use crate::ops::{Attention, AttentionOutput, AttentionScores, Dim, Linear, Op, Shape, Softmax};
use crate::tensor::{Part, Recipe};

const PASS: &str = "attention";

/// Keeps or expands an `attention`.
pub(super) fn attempt(graph: &mut Graph, index: usize, fusion: &Fusion<'_>) -> Option<Attempt> {
    let Op::Attention(op) = &graph.nodes[index].op else { return None };
    let Some(reason) = reason(op, fusion) else { return Some((PASS, Ok(index))) };
    let done = match take_apart(graph, index, fusion.architecture) {
        Ok(()) => Err(reason),
        Err(fault) => {
            log::warn!(target: "grilly", "{} stays fused ({fault}), although {reason}", graph.nodes[index].name);
            Ok(index)
        }
    };
    Some((PASS, done))
}

/// The three ops that the op is equivalent to.
fn parts(op: &Attention, architecture: &str) -> (AttentionScores, Softmax, AttentionOutput) {
    let output = AttentionOutput { architecture: architecture.to_owned(), ..AttentionOutput::default() };
    (AttentionScores { scale: op.scale }, Softmax { causal: op.causal }, output)
}

/// The reason why the op must not stay fused.
fn reason(op: &Attention, fusion: &Fusion<'_>) -> Option<String> {
    let (scores, softmax, output) = parts(op, fusion.architecture);
    let ops: [(Op, usize); 3] = [(scores.into(), 2), (softmax.into(), 1), (output.into(), 2)];
    ops.iter().find_map(|(op, operands)| (fusion.apart)(op, *operands))
}

/// Replaces node `index` by the three ops.
fn take_apart(graph: &mut Graph, index: usize, architecture: &str) -> Result<(), String> {
    let node = graph.nodes[index].clone();
    let Op::Attention(op) = &node.op else { return Err("it is no attention".into()) };
    let parts_have = Attention {
        soft_cap: 0.0,
        window: 0,
        global_tokens: 0,
        align_end: false,
        bias: false,
        distances: None,
        shared_by: 1,
        ..op.clone()
    };
    if *op != parts_have {
        return Err(
            "its parts have no soft cap, no window, nothing by distance and no places but those from the first on"
                .into(),
        );
    }
    let q = node.operands[0];
    let own = node.operands[1..3].iter().all(|v| *v == q) && node.operands[3] == node.operands[4];
    let Some(place) = graph.producer(q).map(|(place, _)| place).filter(|_| own && graph.uses(q) == 3) else {
        return Err("its queries, keys and values are not one product of their own".into());
    };
    let product = graph.nodes[place].clone();
    let bias = match &product.op {
        Op::Linear(linear) if *linear == (Linear { bias: linear.bias, ..Linear::default() }) => linear.bias,
        _ => return Err("its queries, keys and values are not a plain product".into()),
    };
    let columns = [op.heads * op.head_dim, op.kv_heads * op.head_dim, op.kv_heads * op.head_dim];
    let weights = product.operands[1..].iter().map(|v| split(graph, *v, columns)).collect::<Option<Vec<_>>>();
    let weights =
        weights.filter(|_| [op.q_column, op.k_column, op.v_column] == [0, columns[0], columns[0] + columns[1]]);
    let Some(weights) = weights else {
        return Err("its weight is not one tensor each for queries, keys and values".into());
    };
    let start = graph.nodes.len();
    let added = add(graph, &node.name, op, architecture, product.operands[0], bias, &weights);
    let mut nodes = graph.nodes.split_off(start);
    let mixed = added.map_err(|error| error.to_string())?;
    graph.nodes.splice(index..=index, nodes.split_off(3));
    graph.nodes.splice(place..=place, nodes);
    graph.values[node.results[0].0].source = Source::View(mixed);
    Ok(())
}

/// The weights of three products that replace a joint one; `rows` are their numbers of rows.
fn split(graph: &mut Graph, id: ValueId, rows: [usize; 3]) -> Option<[ValueId; 3]> {
    let value = graph.value(id);
    let Source::Weight(weight) = &value.source else { return None };
    let [queries, keys, values] = rows;
    let ranges = [0..queries, queries..queries + keys, queries + keys..queries + keys + values];
    let parts: [Part; 3] = match &weight.parts[..] {
        [q, k, v] => [q, k, v].map(Part::clone),
        [all] => ranges.map(|rows| {
            let mut part = all.clone();
            part.recipe.push(Recipe::Rows(rows));
            part
        }),
        _ => return None,
    };
    let (shape, dtype) = (value.shape.clone(), value.dtype);
    if shape.rows() != Dim::Fixed(rows.iter().sum()) {
        return None;
    }
    let mut rows = rows.into_iter();
    Some(parts.map(|part| {
        let mut shape = shape.clone();
        shape.0[0] = Dim::Fixed(rows.next().unwrap_or(0));
        graph.weight_as(dtype, vec![part], shape)
    }))
}

/// Adds three products of `x` and the three ops on them; returns the last result.
fn add(
    graph: &mut Graph,
    name: &str,
    op: &Attention,
    architecture: &str,
    x: ValueId,
    bias: bool,
    weights: &[[ValueId; 3]],
) -> crate::Result<ValueId> {
    let mut heads = [x; 3];
    for (part, (label, count)) in
        [("queries", op.heads), ("keys", op.kv_heads), ("values", op.kv_heads)].into_iter().enumerate()
    {
        let label = format!("{name} {label}");
        let operands: Vec<ValueId> = std::iter::once(x).chain(weights.iter().map(|w| w[part])).collect();
        let y = graph.node(&label, Linear { bias, ..Linear::default() }, &operands)?;
        let shape = Shape(vec![Dim::Texts, Dim::Length, Dim::Fixed(count), Dim::Fixed(op.head_dim)]);
        heads[part] = graph.view(&label, y, shape);
    }
    let [q, k, v] = heads;
    let (scores, softmax, output) = parts(op, architecture);
    let scores = graph.node(&format!("{name} scores"), scores, &[q, k])?;
    let weights = graph.node(&format!("{name} softmax"), softmax, &[scores])?;
    graph.node(&format!("{name} output"), output, &[weights, v])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::{Plan, Storage};
    use crate::ops::Counts;

    const HEADS: usize = 4;
    const GROUPS: usize = 2;
    const WIDE: usize = 3;

    fn graph(names: &[&str], causal: bool) -> Graph {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, 8), DType::F32);
        let offsets = graph.input("offsets", Shape::vector(Dim::Boundaries), DType::U32);
        let columns = (HEADS + 2 * GROUPS) * WIDE;
        let parts = |end: &str| names.iter().map(|name| format!("{name}.{end}").into()).collect();
        let weight = graph.weight(parts("weight"), Shape::fixed(&[columns, 8]));
        let bias = graph.weight(parts("bias"), Shape::fixed(&[columns]));
        let linear = Linear { bias: true, ..Linear::default() };
        let qkv = graph.node("product", linear.clone(), &[x, weight, bias]).unwrap();
        let op = Attention {
            heads: HEADS,
            kv_heads: GROUPS,
            head_dim: WIDE,
            scale: 0.5,
            k_column: HEADS * WIDE,
            v_column: (HEADS + GROUPS) * WIDE,
            causal,
            ..Attention::default()
        };
        let mixed = graph.node("attention", op, &[qkv, qkv, qkv, offsets, offsets]).unwrap();
        let weight = graph.weight(vec!["o.weight".into()], Shape::fixed(&[8, HEADS * WIDE]));
        let bias = graph.weight(vec!["o.bias".into()], Shape::fixed(&[8]));
        let y = graph.node("last", linear, &[mixed, weight, bias]).unwrap();
        graph.outputs = vec![y];
        graph
    }

    fn apart(op: &Op, _operands: usize) -> Option<String> {
        matches!(op, Op::AttentionOutput(op) if op.architecture == "mine").then(|| "a reason".into())
    }

    fn fusion(architecture: &str) -> Fusion<'_> {
        Fusion { architecture, apart: &apart, ..Fusion::default() }
    }

    #[test]
    fn what_must_stay_apart_is_taken_apart_and_said_so() {
        let plan = Plan::with(graph(&["q", "k", "v"], true), &fusion("mine"));
        let names: Vec<&str> = plan.graph.nodes.iter().map(|node| node.op.name()).collect();
        let expected = ["linear", "linear", "linear", "attention_scores", "softmax", "attention_output", "linear"];
        assert_eq!(names, expected);
        let text = plan.to_string();
        assert!(text.contains("attention: declined at attention: a reason\n"), "{text}");
        assert!(text.contains("-> [B, 4, S, S]\n") && text.contains("-> [B, S, 4, 3]\n"), "{text}");
        assert!(text.contains("texts of one length S") && !text.contains("Buffer"), "{text}");
        let shape = |node: usize, counts| -> Vec<usize> {
            plan.graph.value(plan.graph.nodes[node].results[0]).shape.sizes(counts)
        };
        let counts = Counts::new(15, 3);
        assert_eq!((shape(1, counts), shape(3, counts)), (vec![15, 6], vec![3, 4, 5, 5]));
        assert_eq!((shape(5, counts), shape(6, counts)), (vec![3, 5, 4, 3], vec![15, 8]));
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
        let whole = Plan::new(graph(&["q", "k", "v"], false));
        assert_eq!(whole.graph.nodes.len(), 3);
        assert!(whole.to_string().contains("attention: fused into attention\n"), "{whole}");
        let other = Plan::with(graph(&["q", "k", "v"], false), &fusion("other"));
        assert_eq!(other.graph.nodes.len(), 3);
    }

    #[test]
    fn a_weight_of_one_tensor_is_cut_by_rows() {
        let plan = Plan::with(graph(&["qkv"], false), &fusion("mine"));
        let rows = plan.graph.nodes[..3].iter().map(|node| {
            let Source::Weight(weight) = &plan.graph.value(node.operands[1]).source else { panic!() };
            weight.parts[0].recipe.clone()
        });
        let expected = [0..12, 12..18, 18..24].map(|rows| vec![Recipe::Rows(rows)]);
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
