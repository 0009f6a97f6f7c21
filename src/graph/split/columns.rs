//! Adjacent columns of a computed matrix as a computation of their own, which computes no others.

use std::ops::Range;

use crate::graph::{Graph, Source, ValueId};
use crate::ops::linear::Residual;
use crate::ops::{Dim, Op, Rope, Shape};
use crate::tensor::Recipe;

/// A value with some columns of `id`, seen as a matrix whose rows are its first axis: of a product the product by those
/// rows of the weight, of rotary positions those of the heads. The nodes are added at the end of the graph.
///
/// # Errors
/// The reason why there is no such computation.
pub(super) fn of(graph: &mut Graph, name: &str, id: ValueId, columns: Range<usize>) -> Result<ValueId, String> {
    if columns == (0..graph.value(id).shape.row_elements()) {
        return Ok(id);
    }
    let other = || format!("{name} are not columns of a product");
    let (place, result) = graph.producer(id).ok_or_else(other)?;
    let node = graph.nodes[place].clone();
    let [seen, made] = [id, node.results[result]].map(|id| &graph.value(id).shape);
    if (seen.rows(), seen.row_elements()) != (made.rows(), made.row_elements()) {
        return Err(other());
    }
    let (rows, width) = (made.rows(), made.columns());
    let (op, operands): (Op, Vec<ValueId>) = match node.op {
        Op::Linear(op) if op.residual == Residual::None => {
            let weights = node.operands[1..].iter().map(|id| rows_of(graph, *id, &columns));
            let weights = weights.collect::<Option<Vec<_>>>().ok_or_else(other)?;
            (op.into(), [&node.operands[..1], &weights].concat())
        }
        Op::Rope(_) if [columns.start, columns.end].iter().all(|end| end.is_multiple_of(width)) => {
            let heads = Shape(vec![rows, Dim::Fixed(columns.len() / width), Dim::Fixed(width)]);
            let x = of(graph, name, node.operands[0], columns)?;
            let x = graph.view(name, x, heads);
            (Rope::default().into(), vec![x, node.operands[1], node.operands[2]])
        }
        _ => return Err(other()),
    };
    graph.node(name, op, &operands).map_err(|error| error.to_string())
}

/// Rows of a constant of the model, as another constant; `None` for other values.
fn rows_of(graph: &mut Graph, id: ValueId, rows: &Range<usize>) -> Option<ValueId> {
    let (mut shape, dtype) = (graph.value(id).shape.clone(), graph.value(id).dtype);
    let Source::Weight(weight) = &graph.value(id).source else { return None };
    let (Dim::Fixed(all), several) = (shape.rows(), weight.parts.len() > 1) else { return None };
    let (mut first, mut chosen) = (0, Vec::new());
    for part in weight.parts.clone() {
        let own = if several { part.rows()? } else { all };
        let within = |row: usize| row.clamp(first, first + own) - first;
        let kept = within(rows.start)..within(rows.end);
        first += own;
        if kept == (0..own) {
            chosen.push(part);
        } else if !kept.is_empty() {
            let mut part = part;
            part.recipe.push(Recipe::Rows(kept));
            chosen.push(part);
        }
    }
    shape.0[0] = Dim::Fixed(rows.len());
    (first == all).then(|| graph.weight_as(dtype, chosen, shape))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::ops::Linear;
    use crate::tensor::Part;

    const WIDTH: usize = 4;

    /// A product of 4 and 8 columns, and its first two heads of four columns turned.
    fn graph() -> (Graph, ValueId, ValueId) {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, 6), DType::F32);
        let [cos, sin] = ["cos", "sin"].map(|name| graph.input(name, Shape::matrix(Dim::Tokens, 1), DType::F32));
        let parts = |end: &str, inner: &[usize]| {
            [("q", 4), ("kv", 8)]
                .map(|(name, rows)| Part::new(format!("{name}.{end}"), &[&[rows], inner].concat(), Vec::new()))
        };
        let weight = graph.weight(parts("weight", &[6]).into(), Shape::fixed(&[12, 6]));
        let bias = graph.weight(parts("bias", &[]).into(), Shape::fixed(&[12]));
        let y = graph.node("y", Linear { bias: true, ..Linear::default() }, &[x, weight, bias]).unwrap();
        let heads = graph.view("heads", y, Shape(vec![Dim::Tokens, Dim::Fixed(3), Dim::Fixed(WIDTH)]));
        let turned = graph.node("turned", Rope { heads: Some(2) }, &[heads, cos, sin]).unwrap();
        let turned = graph.view("rows", turned, Shape::matrix(Dim::Tokens, 8));
        (graph, y, turned)
    }

    fn weights(graph: &Graph, operand: usize) -> Vec<(String, Vec<Recipe>)> {
        let linear = graph.nodes.iter().rfind(|node| matches!(node.op, Op::Linear(_))).unwrap();
        let Source::Weight(weight) = &graph.value(linear.operands[operand]).source else { panic!() };
        weight.parts.iter().map(|part| (part.name.clone(), part.recipe.clone())).collect()
    }

    #[test]
    fn columns_of_a_product_are_rows_of_its_weight() {
        for (columns, expected) in [
            (0..4, vec![("q", vec![])]),
            (4..12, vec![("kv", vec![])]),
            (4..8, vec![("kv", vec![Recipe::Rows(0..4)])]),
            (2..7, vec![("q", vec![Recipe::Rows(2..4)]), ("kv", vec![Recipe::Rows(0..3)])]),
        ] {
            let (mut graph, y, _) = graph();
            let found = of(&mut graph, "some", y, columns.clone()).unwrap();
            assert_eq!(graph.value(found).shape, Shape::matrix(Dim::Tokens, columns.len()));
            for (operand, end) in [(1, "weight"), (2, "bias")] {
                let expected: Vec<_> =
                    expected.iter().map(|(name, recipe)| (format!("{name}.{end}"), recipe.clone())).collect();
                assert_eq!(weights(&graph, operand), expected);
            }
        }
    }

    #[test]
    fn columns_of_rotary_positions_are_turned_heads() {
        let (mut graph, y, turned) = graph();
        let before = graph.nodes.len();
        let found = of(&mut graph, "keys", turned, 4..8).unwrap();
        let names: Vec<&str> = graph.nodes[before..].iter().map(|node| node.op.name()).collect();
        assert_eq!(names, ["linear", "rope"]);
        assert_eq!(graph.value(found).shape, Shape(vec![Dim::Tokens, Dim::Fixed(1), Dim::Fixed(WIDTH)]));
        assert_eq!(graph.nodes[before + 1].operands[1..], graph.nodes[1].operands[1..]);
        assert_eq!(weights(&graph, 1), [("kv.weight".to_owned(), vec![Recipe::Rows(0..4)])]);
        // All columns are the value itself, and need no computation.
        for whole in [turned, y] {
            let columns = graph.value(whole).shape.row_elements();
            assert_eq!(of(&mut graph, "all", whole, 0..columns), Ok(whole));
        }
    }

    #[test]
    fn what_is_computed_otherwise_has_no_columns() {
        let (mut graph, y, turned) = graph();
        assert_eq!(of(&mut graph, "keys", turned, 2..4), Err("keys are not columns of a product".into()));
        let x = graph.inputs[0];
        assert!(of(&mut graph, "keys", x, 2..4).is_err());
        let residual = Linear { residual: Residual::Added, ..Linear::default() };
        let weight = graph.weight(vec!["w".into()], Shape::fixed(&[12, 12]));
        let sum = graph.node("sum", residual, &[y, weight, y]).unwrap();
        assert!(of(&mut graph, "keys", sum, 0..4).is_err());
    }
}
