//! Rows, elements, tables and texts.

use super::*;
use crate::ops::{
    Activation, ActivationKind, Binary, BinaryKind, EmbeddingSum, LayerNorm, Normalize, Pool, PoolMode, Reduce,
    ReduceKind, RmsNorm, Softmax,
};

#[test]
fn a_constant_named_as_a_feature_is_the_devices() {
    let asked = Capabilities { features: vec![Feature::PacksToNearest], ..Capabilities::floor() };
    let norm = |capabilities: &Capabilities| {
        let operands = [Rows(64), Weight(vec![64]), Weight(vec![64])];
        let found = dispatches_as(DType::F16, LayerNorm { eps: 1e-5 }, &operands, capabilities).unwrap();
        constant(&found[0], "packs_to_nearest")
    };
    assert_eq!([norm(&Capabilities::floor()), norm(&asked)], [0, 1]);
}

#[test]
fn three_tables_are_one_dispatch_and_more_are_added_to_it() {
    let table = |rows| Weight(vec![rows, 384]);
    let found = on_floor(EmbeddingSum {}, &[Ids, table(30522), Ids, table(2), Ids, table(512)]);
    assert_eq!(found.len(), 1);
    check(&found[0]);
    assert_eq!(["terms", "accumulate", "sliced"].map(|n| constant(&found[0], n)), [3, 0, 0]);
    assert_eq!(found[0].grid[0], tokens(4));
    let found = on_floor(EmbeddingSum {}, &[Ids, table(9), Ids, table(2), Ids, table(5), Ids, table(7)]);
    assert_eq!(found.len(), 2);
    assert_eq!(["terms", "accumulate", "sliced"].map(|n| constant(&found[1], n)), [1, 1, 0]);
}

#[test]
fn a_large_table_is_one_dispatch_a_slice_and_the_rest_is_added() {
    let found = on_floor(
        EmbeddingSum {},
        &[Ids, Weight(vec![119_547, 768]), Ids, Weight(vec![2, 768]), Ids, Weight(vec![512, 768])],
    );
    assert_eq!(found.len(), 4);
    for slice in &found[..3] {
        check(slice);
        assert_eq!(["terms", "accumulate", "sliced"].map(|n| constant(slice, n)), [1, 0, 1]);
    }
    // Every id lies in exactly one slice: first, slice_rows.
    assert_eq!(push(&found[0])[3] + push(&found[0])[4], push(&found[1])[3]);
    assert_eq!(push(&found[2])[3] + push(&found[2])[4], 119_547);
    assert_eq!(["terms", "accumulate", "sliced"].map(|n| constant(&found[3], n)), [2, 1, 0]);
}

#[test]
fn rows_and_elements_are_tiled() {
    let norm = &on_floor(LayerNorm { eps: 1e-12 }, &[Rows(384), Weight(vec![384]), Weight(vec![384])])[0];
    check(norm);
    assert_eq!((norm.grid[0], push(norm)), (tokens(16), &[1, 1, 384, 1e-12f32.to_bits()][..]));
    assert_eq!(["lanes", "quads", "held", "vector"].map(|n| constant(norm, n)), [16, 6, 1, 1]);
    let wide = &on_floor(RmsNorm { eps: 1e-6 }, &[Rows(20_001), Weight(vec![20_001])])[0];
    check(wide);
    assert_eq!((wide.grid[0], ["lanes", "held", "vector"].map(|n| constant(wide, n))), (tokens(1), [256, 0, 0]));
    let normalize = &on_floor(Normalize::default(), &[Rows(384)])[0];
    check(normalize);
    assert_eq!(normalize.grid[0], tokens(8));
    let activation = &on_floor(Activation::from(ActivationKind::Silu), &[Rows(1000)])[0];
    check(activation);
    assert_eq!((activation.grid[0], constant(activation, "activation")), (tokens(4), 4));
    let add = &on_floor(Binary::from(BinaryKind::Add), &[Rows(5000), Rows(5000)])[0];
    check(add);
    assert_eq!(add.grid[0], tokens(1));
}

#[test]
fn lanes_of_normalize_keep_a_row_at_hand_where_they_can() {
    let constants = |columns| {
        let found = on_floor(Normalize::default(), &[Rows(columns)]);
        check(&found[0]);
        ["lanes", "vector", "held"].map(|name| constant(&found[0], name))
    };
    assert_eq!(constants(384), [32, 1, 3]);
    assert_eq!(constants(1024), [32, 1, 8]);
    assert_eq!(constants(1028), [64, 1, 5]);
    assert_eq!(constants(1023), [128, 0, 8]);
    assert_eq!(constants(8192), [256, 1, 8]);
    assert_eq!(constants(8196), [256, 1, 0]);
}

#[test]
fn a_repeated_operand_is_walked_along_merged_axes() {
    let constants = |a: &[usize], b: &[usize]| {
        let op = Binary::from(BinaryKind::Multiply);
        let found = dispatches(op, &[Weight(a.to_vec()), Weight(b.to_vec())], &Capabilities::floor())?;
        check(&found[0]);
        Ok(["kind", "axes", "vector"].map(|name| constant(&found[0], name)))
    };
    assert_eq!(constants(&[5, 7], &[5, 7]).unwrap(), [2, 0, 0]);
    assert_eq!(constants(&[5, 7], &[]).unwrap(), [2, 1, 1]);
    assert_eq!(constants(&[5, 7], &[7]).unwrap(), [2, 2, 0]);
    assert_eq!(constants(&[5, 8], &[5, 1]).unwrap(), [2, 2, 1]);
    assert_eq!(constants(&[2, 3, 4, 5], &[2, 1, 4, 1]).unwrap(), [2, 4, 0]);
    let error: crate::Error = constants(&[2; 5], &[2, 1, 2, 1, 2]).unwrap_err();
    assert!(error.to_string().contains("5 separate axes"), "{error}");
}

#[test]
fn rows_beyond_the_grid_go_on_along_y() {
    let softmax = &on_floor(Softmax::default(), &[Weight(vec![2_400_000, 2])])[0];
    check(softmax);
    assert_eq!(softmax.grid, [Extent::Fixed(37_500), Extent::Fixed(2), Extent::Fixed(1)]);
    let sums = Reduce::along(1, ReduceKind::Sum);
    let sum = &on_floor(sums, &[Weight(vec![280_000, 1000])])[0];
    assert_eq!(sum.grid, [Extent::Fixed(35_000), Extent::Fixed(2), Extent::Fixed(1)]);
    assert_eq!(["lanes", "columns", "planes"].map(|n| constant(sum, n)), [64, 1, 1]);
}

#[test]
fn pooling_is_one_dispatch_a_mode_side_by_side() {
    let found = on_floor(Pool { modes: vec![PoolMode::Mean, PoolMode::Max] }, &[Rows(100), Offsets, First]);
    assert_eq!(found.len(), 2);
    for (place, (dispatch, mode)) in found.iter().zip([PoolMode::Mean, PoolMode::Max]).enumerate() {
        check(dispatch);
        assert_eq!(push(dispatch), [100, 200, 100 * place as u32]);
        assert_eq!(constant(dispatch, "mode"), mode as u32);
        assert_eq!(
            dispatch.grid,
            [Extent::Fixed(2), Extent::Tiles { dim: Dim::Texts, per: 1 }, Extent::Continued { axis: 1 }]
        );
    }
}
