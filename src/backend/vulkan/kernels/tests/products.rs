//! Products, and which build of an op serves which element type.

use std::sync::Arc;

use super::*;
use crate::graph::shaders::{Float32Products, Registry};
use crate::ops::{
    Activation, ActivationKind, Binary, BinaryKind, Dropout, EmbeddingSum, Gated, GatedLinear, IntegerLinear,
    LayerNorm, LayerNormLinear, Linear, Matmul, Normalize, Pool, PoolMode, QuantizeKind, QuantizeRows, QuantizedLinear,
    Residual, RmsNorm, Softmax,
};

#[test]
fn linear_has_one_dispatch_with_its_epilogue() {
    let op = Linear { bias: true, activation: Some(ActivationKind::GeluErf), residual: Residual::Added };
    let found = on_floor(op, &[Rows(384), Weight(vec![1536, 384]), Weight(vec![1536]), Rows(1536)]);
    let [dispatch] = found.as_slice() else { panic!("{} dispatches", found.len()) };
    check(dispatch);
    assert_eq!(dispatch.grid, [Extent::Fixed(12), tokens(128), Extent::Continued { axis: 1 }]);
    // rows_of: tokens; rows; n; k; column; y_columns.
    assert_eq!(push(dispatch), [1, 1, 1536, 384, 0, 1536]);
    for (name, expected) in [("vector", 1), ("bias", 1), ("residual", 1), ("activation", 1)] {
        assert_eq!(constant(dispatch, name), expected, "{name}");
    }
    let odd = on_floor(Linear::default(), &[Rows(385), Weight(vec![3, 385])]);
    assert_eq!(constant(&odd[0], "vector"), 0);
    assert_eq!(odd[0].grid[0], Extent::Fixed(1));
}

#[test]
fn tiles_of_linear_fit_shared_memory() {
    for n in [1, 64, 65, 1536] {
        let dispatch = &on_floor(Linear::default(), &[Rows(64), Weight(vec![n, 64])])[0];
        let [m, n, k] = ["tile_m", "tile_n", "tile_k"].map(|name| constant(dispatch, name));
        // Rows of quads, one of which is padding.
        assert!((m + n) * (k / 4 + 1) * 16 <= Capabilities::floor().shared_memory);
        assert_eq!((m * k % 1024, n * k % 1024), (0, 0), "every invocation loads as much");
    }
}

#[test]
fn a_weight_over_the_binding_range_is_cut() {
    // The vocabulary of mBERT as a product: 367 MB.
    let found = on_floor(
        Linear { bias: true, ..Linear::default() },
        &[Rows(768), Weight(vec![119_547, 768]), Weight(vec![119_547])],
    );
    assert_eq!(found.len(), 3);
    let mut column = 0;
    for dispatch in &found {
        check(dispatch);
        assert_eq!((push(dispatch)[4], push(dispatch)[5]), (column, 119_547));
        assert_eq!(dispatch.bindings[2].offset, 4 * 768 * u64::from(column));
        column += push(dispatch)[2];
    }
    assert_eq!(column, 119_547);
}

#[test]
fn software_devices_with_shuffles_get_the_shuffling_product() {
    let mut capabilities = Capabilities::floor();
    capabilities.device_type = DeviceType::Software;
    let name = |c: &Capabilities| {
        let found = dispatches(Linear::default(), &[Rows(64), Weight(vec![64, 64])], c).unwrap();
        check(&found[0]);
        found[0].variant.name
    };
    assert_eq!(name(&capabilities), "linear");
    capabilities.features.push(Feature::SubgroupShuffle);
    for (subgroup_size, expected) in
        [(4, "linear-shuffle"), (8, "linear-shuffle"), (64, "linear-shuffle"), (128, "linear")]
    {
        capabilities.subgroup_size = subgroup_size;
        assert_eq!(name(&capabilities), expected, "{subgroup_size}");
    }
    capabilities.device_type = DeviceType::Discrete;
    assert_eq!(name(&capabilities), "linear");
}

#[test]
fn narrow_operands_get_the_variant_of_their_type() {
    let mut able = Capabilities::floor();
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    let name = |stored, op: Op, operands: &[Operand], capabilities: &Capabilities| {
        dispatches_as(stored, op, operands, capabilities).map(|found| {
            check(&found[0]);
            (found.len(), found[0].variant.name)
        })
    };
    let linear = || Op::from(Linear::default());
    let product = |n, k| [Rows(k), Weight(vec![n, k])];
    let floor = Capabilities::floor();
    for (stored, n, k, on_floor, on_able) in [
        (DType::F16, 64, 64, "linear-float16", "linear-matrix-float16"),
        (DType::F16, 36, 312, "linear-float16", "linear-matrix-float16"),
        (DType::F16, 64, 20, "linear-float16", "linear-matrix-float16"),
        (DType::F16, 64, 12, "linear-float16", "linear-float16"),
        (DType::Bf16, 64, 64, "linear-bfloat16", "linear-matrix-bfloat16"),
    ] {
        assert_eq!(name(stored, linear(), &product(n, k), &floor).unwrap(), (1, on_floor));
        assert_eq!(name(stored, linear(), &product(n, k), &able).unwrap(), (1, on_able));
    }
    let software = Capabilities { device_type: DeviceType::Software, ..able.clone() };
    let software = Capabilities { features: vec![Feature::SubgroupShuffle], ..software };
    assert_eq!(name(DType::F16, linear(), &product(12, 20), &software).unwrap().1, "linear-shuffle-float16");
    // A weight over the binding range is cut, and its slices run without matrix cores.
    assert_eq!(name(DType::F16, linear(), &product(119_547 / 8 * 8, 768), &able).unwrap(), (2, "linear-float16"));
    let norm = [Rows(384), Weight(vec![384]), Weight(vec![384])];
    let norm = name(DType::F16, LayerNorm { eps: 1e-5 }.into(), &norm, &floor).unwrap();
    let tables = name(DType::Bf16, EmbeddingSum {}.into(), &[Ids, Weight(vec![9, 8])], &floor).unwrap();
    let pool =
        name(DType::F16, Pool { modes: vec![PoolMode::Mean] }.into(), &[Rows(8), Offsets, First], &floor).unwrap();
    assert_eq!((norm.1, tables.1, pool.1), ("layer-norm-float16", "embedding-sum-bfloat16", "pool-float16"));
    let silu = || Activation::from(ActivationKind::Silu);
    for (op, operands, expected) in [
        (Op::from(silu()), &[Rows(8)][..], "activation-float16"),
        (Binary::from(BinaryKind::Divide).into(), &[Rows(8), Rows(8)], "binary-float16"),
        (Dropout { p: 0.5, seed: 1, offset: 0, stream: 0 }.into(), &[Rows(8)], "dropout-float16"),
        (Gated(silu()).into(), &[Rows(8)], "gated-float16"),
        (RmsNorm { eps: 1e-6 }.into(), &[Rows(8), Weight(vec![8])], "rms-norm-float16"),
        (Softmax::default().into(), &[Rows(8)], "softmax-float16"),
    ] {
        assert_eq!(name(DType::F16, op, operands, &floor).unwrap(), (1, expected));
    }
    for (op, operands, reason) in [
        (linear(), &product(6, 8)[..], "float16 takes multiples of four"),
        (linear(), &product(8, 6), "float16 takes multiples of four"),
        (Normalize::default().into(), &[Rows(8)], "no variant for float16"),
        // A vector weight is float32.
        (Binary::from(BinaryKind::Add).into(), &[Rows(8), Weight(vec![8])], "operand 1 is float32, expected float16"),
    ] {
        let error = name(DType::F16, op, operands, &able).unwrap_err();
        assert!(matches!(&error, crate::Error::Unsupported { .. }) && error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn float32_products_are_split_where_there_are_matrix_cores_unless_they_are_to_be_plain() {
    let mut able = Capabilities::floor();
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    let wide = Capabilities { subgroup_size: 128, ..able.clone() };
    let name = |products, op: Op, operands: &[Operand], capabilities: &Capabilities| {
        let mut registry = Registry::default();
        registry.float32_products = products;
        let fusion = Fusion { shaders: &Arc::new(registry), ..Fusion::default() };
        let found = dispatches_with(&fusion, DType::F32, op, operands, capabilities);
        found.unwrap().last().unwrap().variant.name
    };
    let product = |n, k| vec![Rows(k), Weight(vec![n, k])];
    let vector = || Weight(vec![64]);
    let gated = GatedLinear { kind: ActivationKind::Silu };
    for (op, operands, split, plain) in [
        (Op::from(Linear::default()), product(64, 64), "linear-split", "linear"),
        (Linear::default().into(), product(33, 35), "linear-split", "linear"),
        (Linear::default().into(), product(31, 64), "linear", "linear"),
        (Linear::default().into(), product(64, 31), "linear", "linear"),
        (
            gated.into(),
            vec![Rows(64), Weight(vec![64, 64]), Weight(vec![64, 64])],
            "gated-linear-split",
            "gated-linear",
        ),
        (
            LayerNormLinear::default().into(),
            vec![Rows(64), vector(), vector(), Weight(vec![96, 64])],
            "layer-norm-linear-split",
            "layer-norm-linear",
        ),
        (Matmul::default().into(), vec![Weight(vec![9, 64]), Weight(vec![64, 32])], "matmul-split", "matmul"),
        (Matmul::default().into(), vec![Weight(vec![9, 64]), Weight(vec![64, 31])], "matmul", "matmul"),
    ] {
        assert_eq!(name(Float32Products::Split, op.clone(), &operands, &able), split);
        assert_eq!(name(Float32Products::Plain, op.clone(), &operands, &able), plain);
        for without in [&Capabilities::floor(), &wide] {
            assert_eq!(name(Float32Products::Split, op.clone(), &operands, without), plain);
        }
    }
}

#[test]
fn products_in_16_bits_run_on_matrix_cores_of_their_type_alone() {
    let mut able = Capabilities::floor();
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    let matrices = |sizes: [[usize; 2]; 2]| sizes.map(|axes| Weight(axes.to_vec()));
    let found = |stored, op: Matmul, sizes, capabilities: &Capabilities| {
        let found = dispatches_as(stored, op, &matrices(sizes), capabilities)?;
        Ok::<_, crate::Error>(found.into_iter().map(|dispatch| dispatch.variant.name).collect::<Vec<_>>())
    };
    let wide = Matmul { transpose_a: true, wide: true, ..Matmul::default() };
    for (stored, name) in [(DType::F16, "matmul-matrix-float16"), (DType::Bf16, "matmul-matrix-bfloat16")] {
        assert_eq!(found(stored, Matmul::default(), [[9, 64], [64, 32]], &able).unwrap(), [name]);
        assert_eq!(found(stored, wide.clone(), [[4096, 64], [4096, 32]], &able).unwrap(), [name, "reduce-quads"]);
        assert!(found(stored, Matmul::default(), [[9, 64], [64, 32]], &Capabilities::floor()).is_err());
        assert_eq!(found(stored, Matmul::default(), [[9, 62], [62, 31]], &able).unwrap(), [name]);
        let error = found(stored, Matmul::default(), [[9, 61], [61, 32]], &able).unwrap_err().to_string();
        assert!(error.contains("the number of terms is odd"), "{error}");
    }
}

#[test]
fn a_product_of_any_width_and_the_pooling_of_its_columns_run_in_16_bits() {
    let mut able = Capabilities::floor();
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    // The last of BERT's 30,522 words in slices.
    for words in [1850, 1851] {
        let mut graph = Graph::new();
        let x = graph.input("x", Shape::matrix(Dim::Tokens, 312), DType::F16);
        let [offsets, first] = [Dim::Boundaries, Dim::Texts].map(Shape::vector);
        let [offsets, first] =
            [("offsets", offsets), ("first", first)].map(|(name, of)| graph.input(name, of, DType::U32));
        let weight = graph.weight_as(DType::F16, vec!["weight".into()], Shape::fixed(&[words, 312]));
        let y = graph.node("logits", Linear::default(), &[x, weight]).unwrap();
        let y = graph.node("pooling", Pool { modes: vec![PoolMode::Max] }, &[y, offsets, first]).unwrap();
        graph.outputs = vec![y];
        let found = lower(&Plan::new(graph), &able).unwrap();
        found.iter().for_each(check);
        let names: Vec<&str> = found.iter().map(|dispatch| dispatch.variant.name).collect();
        assert_eq!(names, ["linear-matrix-float16", "pool-float16"]);
        let units = ["x_unit", "y_unit", "whole"].map(|name| constant(&found[0], name));
        assert_eq!(units, [8, if words == 1850 { 2 } else { 1 }, 0]);
    }
}

#[test]
fn products_of_8_bit_integers_run_on_matrix_cores_where_rows_are_whole_words() {
    let mut able = Capabilities::floor();
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    let found = |k: usize, n: usize, capabilities: &Capabilities| {
        let operands = [Weight(vec![9, k]), Weight(vec![n, k])];
        dispatches_as(DType::I8, IntegerLinear::default(), &operands, capabilities).unwrap()[0].variant.name
    };
    assert_eq!(found(48, 36, &able), "integer-linear-matrix");
    assert_eq!(found(48, 35, &able), "integer-linear-matrix");
    assert_eq!(found(40, 36, &able), "integer-linear-dot");
    assert_eq!(found(48, 36, &Capabilities::floor()), "integer-linear");
}

#[test]
fn quantised_rows_and_their_products_are_one_dispatch_each() {
    let mut able = Capabilities::floor();
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    let name = |stored, op: Op, operands: &[Operand], capabilities: &Capabilities| {
        let found = dispatches_as(stored, op, operands, capabilities).unwrap();
        found.iter().map(|dispatch| dispatch.variant.name).collect::<Vec<_>>()
    };
    let affine = QuantizeRows { kind: QuantizeKind::Affine, ..QuantizeRows::default() };
    let pairs = QuantizeRows { pairs: true, ..affine.clone() };
    let floor = Capabilities::floor();
    for (op, columns, expected) in [
        (QuantizeRows::default(), 64, &["quantize-rows-held"][..]),
        (pairs.clone(), 64, &["quantize-rows-held"]),
        (QuantizeRows::default(), 33, &["quantize-rows-scales", "quantize-rows"]),
        (pairs, 33, &["quantize-rows-scales-affine", "quantize-rows-affine"]),
        (affine, 64, &["quantize-rows-scales-affine", "quantize-rows-affine"]),
    ] {
        assert_eq!(name(DType::F32, op.into(), &[Rows(columns)], &floor), expected);
    }
    assert_eq!(name(DType::Bf16, QuantizeRows::default().into(), &[Rows(8)], &floor), ["quantize-rows-held-bfloat16"]);
    let mut graph = Graph::new();
    let q = graph.input("q", Shape::matrix(Dim::Tokens, 64), DType::I8);
    let scale = graph.input("scale", Shape::vector(Dim::Tokens), DType::F32);
    let weight = graph.weight_as(DType::I8, vec!["weight".into()], Shape::fixed(&[36, 64]));
    let weight_scale = graph.weight(vec!["scales".into()], Shape::fixed(&[36]));
    let y = graph.node("y", QuantizedLinear::default(), &[q, scale, weight, weight_scale]).unwrap();
    graph.outputs = vec![y];
    for (stored, on_matrices, portable) in [
        (DType::F32, "quantized-linear-matrix", "quantized-linear"),
        (DType::Bf16, "quantized-linear-matrix-bfloat16", "quantized-linear-bfloat16"),
        (DType::F16, "quantized-linear-matrix-float16", "quantized-linear-float16"),
    ] {
        graph.values[y.0].dtype = stored;
        for (capabilities, expected) in [(&able, on_matrices), (&floor, portable)] {
            let found = lower(&Plan::new(graph.clone()), capabilities).unwrap();
            assert_eq!(found.iter().map(|dispatch| dispatch.variant.name).collect::<Vec<_>>(), [expected]);
            check(&found[0]);
        }
    }
}

#[test]
fn a_fixed_number_of_rows_is_in_the_push_block() {
    let found = on_floor(Linear::default(), &[Weight(vec![130, 8]), Weight(vec![16, 8])]);
    assert_eq!(found[0].grid[1], Extent::Fixed(2));
    assert_eq!(push(&found[0])[..2], [0, 130]);
    let large = [Weight(vec![128 * 70_000, 1]), Weight(vec![16, 1])];
    let found = on_floor(Linear::default(), &large);
    assert_eq!(found[0].grid, [Extent::Fixed(1), Extent::Fixed(65_535), Extent::Fixed(2)]);
}
