//! Plans whose results have the same bits on every device: which builds they have, and what is refused.

use super::*;
use crate::Error;
use crate::numerics::Numerics;
use crate::ops::{
    Activation, ActivationKind, Attention, Binary, BinaryKind, ExpertLinear, LayerNorm, Linear, Matmul, Normalize,
    QuantizeKind, QuantizeRows, Reduce, ReduceKind, RmsNorm, Route, Softmax,
};

fn everywhere(op: impl Into<Op>, operands: &[Operand]) -> crate::Result<Vec<Dispatch>> {
    let fusion = Fusion { numerics: Numerics::Everywhere, ..Fusion::default() };
    dispatches_with(&fusion, DType::F32, op, operands, &Capabilities::floor())
}

#[test]
fn every_dispatch_is_of_a_build_for_every_device() {
    let gelu = Activation::from(ActivationKind::GeluErf);
    let cases: Vec<(Op, Vec<Operand>)> = vec![
        (gelu.into(), vec![Rows(12)]),
        (Binary::from(BinaryKind::Add).into(), vec![Rows(12), Rows(12)]),
        (LayerNorm { eps: 1e-12 }.into(), vec![Rows(12), Weight(vec![12]), Weight(vec![12])]),
        (RmsNorm { eps: 1e-6 }.into(), vec![Rows(3000), Weight(vec![3000])]),
        (Normalize::default().into(), vec![Rows(12)]),
        (Softmax::default().into(), vec![Rows(12)]),
        (Linear::default().into(), vec![Rows(12), Weight(vec![7, 12])]),
        (Matmul::default().into(), vec![Weight(vec![5, 12]), Weight(vec![12, 7])]),
        (Reduce::along(1, ReduceKind::Sum).into(), vec![Weight(vec![5, 12])]),
        (Reduce::along(0, ReduceKind::Deviation).into(), vec![Weight(vec![5, 12])]),
        (Activation::from(ActivationKind::Gcu).into(), vec![Rows(12)]),
        (Route { top_k: 2, normalized: true }.into(), vec![Rows(8)]),
        (QuantizeRows::default().into(), vec![Rows(12)]),
        (QuantizeRows { kind: QuantizeKind::Ternary, ..QuantizeRows::default() }.into(), vec![Rows(13)]),
    ];
    for (op, operands) in cases {
        let name = op.name();
        let found = everywhere(op, &operands).unwrap_or_else(|error| panic!("{name}: {error}"));
        let all = found.iter().all(|dispatch| dispatch.variant.numerics == Numerics::Everywhere);
        assert!(!found.is_empty() && all, "{name}");
    }
}

#[test]
fn rows_have_64_lanes_whatever_their_columns() {
    for columns in [1, 64, 1000, 5000] {
        let found = everywhere(Normalize::default(), &[Rows(columns)]).unwrap();
        assert_eq!(found[0].constants[0], 64, "{columns}");
        assert_eq!(found[0].grid[0], Extent::Tiles { dim: Dim::Tokens, per: 4 });
    }
}

#[test]
fn a_weight_of_the_model_is_bound_as_integers_with_their_exponents() {
    let of_model = everywhere(Linear::default(), &[Rows(12), Weight(vec![7, 12])]).unwrap();
    let [_, _, weight, exponents, ..] = &of_model[0].bindings[..] else { panic!() };
    assert!(matches!(weight.resource, Resource::Integers(..)) && weight.resource == exponents.resource);
    assert_eq!((weight.bytes, exponents.bytes, exponents.offset), (Some(4 * 7 * 12), Some(4 * (7 + 12)), 512));
}

#[test]
fn each_matrix_of_experts_has_exponents_of_its_own() {
    let matrices = |experts| {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, 768), DType::F32);
        let order = graph.input("order", Shape::matrix(Dim::Tokens, 2), DType::I32);
        let starts = graph.input("starts", Shape::fixed(&[experts + 1]), DType::I32);
        let weight = graph.weight(vec!["weight".into()], Shape::fixed(&[experts, 3072, 768]));
        graph.outputs = vec![graph.node("product", ExpertLinear::default(), &[x, weight, order, starts]).unwrap()];
        let fusion = Fusion { numerics: Numerics::Everywhere, ..Fusion::default() };
        lower(&Plan::with(graph, &fusion).unwrap(), &Capabilities::floor()).unwrap()
    };
    let found = matrices(8);
    found.iter().for_each(check);
    assert_eq!((found.len(), found[0].variant.name), (1, "expert-linear-everywhere"));
    // rows_of: tokens; rows of each; n; k; column; y_columns; first expert; experts; rows with one row of x.
    assert_eq!(push(&found[0]), [1, 2, 3072, 768, 0, 3072, 0, 8, 2]);
    let down = Extent::Groups { dim: Dim::Tokens, each: 2, more: 8 * 63, per: 64 };
    assert_eq!(found[0].grid, [Extent::Fixed(48), down, Extent::Continued { axis: 1 }]);
    let [_, _, weight, exponents, ..] = &found[0].bindings[..] else { panic!() };
    let integers = 4 * 8 * 3072 * 768;
    assert_eq!(
        (weight.bytes, exponents.offset, exponents.bytes),
        (Some(integers), integers, Some(4 * 8 * (3072 + 768)))
    );
    // Over the binding range matrices are cut between experts, their exponents are not.
    let cut = matrices(20);
    assert_eq!(cut.iter().map(|dispatch| push(dispatch)[7]).sum::<u32>(), 20);
    assert!(cut.len() == 2 && cut[0].bindings[3].bytes == cut[1].bindings[3].bytes);
}

#[test]
fn what_has_no_such_kernel_is_refused_by_name() {
    let refused = |op: Op, operands: &[Operand], expected: &str| match everywhere(op, operands) {
        Err(Error::Unsupported { what, reason }) => {
            assert!(format!("{what}: {reason}").contains(expected), "{what}: {reason}");
        }
        other => panic!("{other:?}"),
    };
    let wide = Linear::default();
    refused(wide.into(), &[Rows(278_529), Weight(vec![2, 278_529])], "sums of 278529 terms");
    let attention = Attention { heads: 1, kv_heads: 1, head_dim: 300, scale: 1.0, ..Attention::default() };
    let operands = [Rows(300), Rows(300), Rows(300), Offsets, Offsets];
    refused(attention.into(), &operands, "has no heads of 300 columns");
    refused(Route { top_k: 40, normalized: false }.into(), &[Rows(4000)], "40 of 4000 experts");
}

#[test]
fn sums_of_many_terms_have_more_than_64_bits() {
    for (terms, long) in [(131_072, 0), (131_073, 1), (278_528, 1)] {
        let found = everywhere(Linear::default(), &[Rows(terms), Weight(vec![2, terms])]).unwrap();
        let place = found[0].variant.constants.iter().position(|constant| constant.name == "long").unwrap();
        assert_eq!(found[0].constants[place], long, "{terms}");
    }
}
