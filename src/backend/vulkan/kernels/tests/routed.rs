//! Mixtures of experts: which builds run, over how many tiles, and slices of experts.

use super::*;
use crate::ops::{ExpertLinear, Route, WeightedSum};

const TOP_K: usize = 2;

/// Routing of tokens, a product of their rows or of rows of their own, and the weighted sum.
fn mixture(
    stored: DType,
    [experts, n, k]: [usize; 3],
    apart: bool,
    capabilities: &Capabilities,
) -> crate::Result<Vec<Dispatch>> {
    let mut graph = Graph::new();
    let scores = graph.input("scores", Shape::matrix(Dim::Tokens, experts), DType::F32);
    let places = if apart { vec![Dim::Fixed(TOP_K)] } else { vec![] };
    let x = Shape([vec![Dim::Tokens], places, vec![Dim::Fixed(k)]].concat());
    let x = graph.input("x", x, stored);
    let routed = graph.apply("route", Route { top_k: TOP_K, normalized: false }, &[scores])?;
    let weight = graph.weight_as(stored, vec!["weight".into()], Shape::fixed(&[experts, n, k]));
    let y = graph.node("product", ExpertLinear::default(), &[x, weight, routed[1], routed[2]])?;
    let y = graph.node("sum", WeightedSum::default(), &[y, routed[0]])?;
    graph.outputs = vec![y];
    lower(&Plan::new(graph), capabilities)
}

#[test]
fn an_experts_rows_start_tiles_of_their_own() {
    let found = mixture(DType::F32, [8, 96, 64], false, &Capabilities::floor()).unwrap();
    found.iter().for_each(check);
    let names: Vec<&str> = found.iter().map(|dispatch| dispatch.variant.name).collect();
    assert_eq!(names, ["route", "route-order", "expert-linear", "weighted-sum"]);
    assert_eq!(found[1].grid, [tokens(256), Extent::Fixed(8), Extent::Continued { axis: 0 }]);
    let down = Extent::Groups { dim: Dim::Tokens, each: TOP_K as u32, more: 8 * 127, per: 128 };
    assert_eq!(found[2].grid, [Extent::ONE, down, Extent::Continued { axis: 1 }]);
    // rows_of: tokens; rows of each; n; k; column; y_columns; first expert; experts; rows with one row of x.
    assert_eq!(push(&found[2]), [1, 2, 96, 64, 0, 96, 0, 8, 2]);
    let apart = mixture(DType::F32, [8, 96, 64], true, &Capabilities::floor()).unwrap();
    assert_eq!(push(&apart[2])[8], 1);
}

#[test]
fn sixteen_bits_run_on_matrix_cores_where_they_fit() {
    let mut able = Capabilities::floor();
    (able.features, able.subgroup_size, able.shared_memory) = (Feature::ALL.to_vec(), 32, 48 << 10);
    let name = |stored, sizes| mixture(stored, sizes, true, &able).unwrap()[2].variant.name;
    assert_eq!(name(DType::F16, [5, 64, 96]), "expert-linear-matrix-float16");
    assert_eq!(name(DType::F16, [5, 36, 20]), "expert-linear-matrix-float16");
    assert_eq!(name(DType::F16, [5, 64, 12]), "expert-linear-float16");
    assert_eq!(name(DType::Bf16, [5, 64, 96]), "expert-linear-matrix-bfloat16");
    let product = &mixture(DType::F16, [5, 264, 96], false, &able).unwrap()[2];
    check(product);
    let down = Extent::Groups { dim: Dim::Tokens, each: TOP_K as u32, more: 5 * 191, per: 8 * 192 };
    assert_eq!(product.grid, [Extent::Fixed(8 * 3), down, Extent::Continued { axis: 1 }]);
    assert_eq!(push(product), [1, 2, 264, 96, 0, 5, 2]);
    let (experts, floor) = (DType::F16, Capabilities::floor());
    let software =
        Capabilities { device_type: DeviceType::Software, features: vec![Feature::SubgroupShuffle], ..floor };
    assert_eq!(
        mixture(experts, [5, 64, 96], true, &software).unwrap()[2].variant.name,
        "expert-linear-shuffle-float16"
    );
}

#[test]
fn matrices_over_the_binding_range_are_cut_between_experts() {
    let found = mixture(DType::F32, [20, 3072, 768], false, &Capabilities::floor()).unwrap();
    let products: Vec<&Dispatch> = found.iter().filter(|dispatch| dispatch.variant.name == "expert-linear").collect();
    assert_eq!(products.len(), 2);
    let mut first = 0;
    for dispatch in products {
        check(dispatch);
        let [own, experts] = [push(dispatch)[6], push(dispatch)[7]];
        assert_eq!((own, dispatch.bindings[2].offset), (first, 4 * 3072 * 768 * u64::from(first)));
        first += experts;
    }
    assert_eq!(first, 20);
    let error = mixture(DType::F32, [5000, 4, 4], false, &Capabilities::floor()).unwrap_err().to_string();
    assert!(error.contains("5000 experts, at most 4096 are known"), "{error}");
}
