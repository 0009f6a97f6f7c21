//! Lowering for the portable floor: grids, slices, push constants and limits, as data.

use super::super::generated;
use super::super::kernel::{Access, Dispatch, Extent, Kernel, Resource};
use super::super::lower::lower;
use super::super::{Capabilities, DeviceType, Feature};
use crate::backend::registry::Registry;
use crate::dtype::DType;
use crate::graph::{Graph, Plan, ValueId};
use crate::ops::reduce::Stage;
use crate::ops::{
    Activation, ActivationKind, Attention, Binary, BinaryKind, Counts, Dim, Dropout, EmbeddingSum, Gated, LayerNorm,
    Linear, Normalize, Op, Pool, PoolMode, Reduce, ReduceKind, Residual, RmsNorm, Shape, Softmax,
};

const KERNELS: [&Kernel; 38] = [
    &generated::activation::KERNEL,
    &generated::activation_backward::KERNEL,
    &generated::attention::KERNEL,
    &generated::attention_masked::KERNEL,
    &generated::binary::KERNEL,
    &generated::binary_cross_entropy::KERNEL,
    &generated::dropout::KERNEL,
    &generated::cast::KERNEL,
    &generated::cross_entropy::KERNEL,
    &generated::cross_entropy_backward::KERNEL,
    &generated::embedding_backward::KERNEL,
    &generated::embedding_sum::KERNEL,
    &generated::gated::KERNEL,
    &generated::gated_backward::KERNEL,
    &generated::layer_norm::KERNEL,
    &generated::layer_norm_backward::KERNEL,
    &generated::linear::KERNEL,
    &generated::linear_shuffle::KERNEL,
    &generated::normalize::KERNEL,
    &generated::pool::KERNEL,
    &generated::reduce::KERNEL,
    &generated::reduce_quads::KERNEL,
    &generated::rms_norm::KERNEL,
    &generated::rms_norm_backward::KERNEL,
    &generated::softmax::KERNEL,
    &generated::softmax_backward::KERNEL,
    &generated::bias_gelu::KERNEL,
    &generated::gated_linear::KERNEL,
    &generated::layer_norm_linear::KERNEL,
    &generated::layer_norm_linear_shuffle::KERNEL,
    &generated::layer_norm_columns::KERNEL,
    &generated::layer_norm_linear_folded::KERNEL,
    &generated::layer_norm_linear_folded_shuffle::KERNEL,
    &generated::layer_norm_moments::KERNEL,
    &generated::residual_layer_norm::KERNEL,
    &generated::residual_rms_norm::KERNEL,
    &generated::rms_norm_rope::KERNEL,
    &generated::softmax_dropout::KERNEL,
];
/// Those that know all sizes when they are recorded.
const UNCOUNTED: [&str; 4] = ["cast", "reduce", "reduce-quads", "layer-norm-columns"];

/// What an operand of a one-node plan is.
enum Operand {
    Rows(usize),
    Ids,
    Offsets,
    First,
    Weight(Vec<usize>),
}
use Operand::{First, Ids, Offsets, Rows, Weight};

fn value(graph: &mut Graph, place: usize, operand: &Operand, stored: DType) -> ValueId {
    let name = format!("operand {place}");
    match operand {
        Rows(columns) => graph.input(&name, Shape::matrix(Dim::Tokens, *columns), stored),
        Ids => graph.input(&name, Shape::vector(Dim::Tokens), DType::U32),
        Offsets => graph.input(&name, Shape::vector(Dim::Boundaries), DType::U32),
        First => graph.input(&name, Shape::vector(Dim::Texts), DType::U32),
        Weight(axes) => {
            let stored = if axes.len() == 2 { stored } else { DType::F32 };
            graph.weight_as(stored, vec![name.into()], Shape::fixed(axes))
        }
    }
}

fn dispatches(op: impl Into<Op>, operands: &[Operand], capabilities: &Capabilities) -> crate::Result<Vec<Dispatch>> {
    dispatches_as(DType::F32, op, operands, capabilities)
}

fn dispatches_as(
    stored: DType,
    op: impl Into<Op>,
    operands: &[Operand],
    capabilities: &Capabilities,
) -> crate::Result<Vec<Dispatch>> {
    let mut graph = Graph::new();
    let ids: Vec<ValueId> = operands.iter().enumerate().map(|(i, o)| value(&mut graph, i, o, stored)).collect();
    let result = graph.node("node", op, &ids)?;
    graph.outputs = vec![result];
    lower(&Plan::new(graph), capabilities, &Registry::default())
}

fn on_floor(op: impl Into<Op>, operands: &[Operand]) -> Vec<Dispatch> {
    dispatches(op, operands, &Capabilities::floor()).unwrap()
}

fn constant(dispatch: &Dispatch, name: &str) -> u32 {
    dispatch.constants[dispatch.variant.constants.iter().position(|c| c.name == name).unwrap()]
}

fn push(dispatch: &Dispatch) -> &[u32] {
    bytemuck::cast_slice(&dispatch.push)
}

fn tokens(per: u32) -> Extent {
    Extent::Tiles { dim: Dim::Tokens, per }
}

/// What a recording relies on.
fn check(dispatch: &Dispatch) {
    let variant = dispatch.variant;
    assert_eq!(dispatch.constants.len(), variant.constants.len(), "{}", variant.name);
    assert_eq!(dispatch.bindings.len(), variant.bindings.len(), "{}", variant.name);
    assert_eq!(dispatch.push.len(), variant.push_bytes as usize, "{}", variant.name);
    assert_eq!(dispatch.bindings[0].resource, Resource::Counts);
}

#[test]
fn every_variant_keeps_to_the_floor() {
    let floor = Capabilities::floor();
    for kernel in KERNELS {
        assert!(kernel.variants.last().unwrap().needs.is_empty(), "{}", kernel.name);
        for variant in kernel.variants {
            let name = variant.name;
            assert!(variant.shared_bytes <= floor.shared_memory, "{name}: {} bytes shared", variant.shared_bytes);
            assert!(variant.local_size.iter().product::<u32>() <= floor.invocations, "{name}");
            assert!(variant.push_bytes <= floor.push_constants, "{name}");
            assert!(variant.bindings.len() <= floor.storage_buffers as usize, "{name}");
            assert_eq!(variant.bindings[0].name == "counts", !UNCOUNTED.contains(&kernel.name), "{name}");
            assert_eq!(variant.bindings.last().unwrap().name, "y", "{name}: the result comes last");
            let writes: Vec<_> = variant.bindings.iter().filter(|b| b.access != Access::Read).collect();
            assert!(writes.len() == 1 && writes[0].name == "y", "{name} writes y alone");
            // OpCapability (17): Shader (1), and 64-bit, 16-bit, 8-bit or float features nowhere.
            let capabilities: Vec<u32> = capabilities_of(variant.spirv);
            let shuffles = kernel.name.ends_with("-shuffle");
            assert!(
                capabilities.iter().all(|c| *c == 1 || (shuffles && [61, 65].contains(c))),
                "{name}: {capabilities:?}"
            );
        }
    }
}

#[test]
fn reflection_gives_names_defaults_and_sizes() {
    let variant = &generated::linear::KERNEL.variants[0];
    let names: Vec<&str> = variant.bindings.iter().map(|b| b.name).collect();
    assert_eq!(names, ["counts", "x", "weight", "bias", "residual", "y"]);
    let accesses: Vec<Access> = variant.bindings.iter().map(|b| b.access).collect();
    assert_eq!(accesses, [Access::Read, Access::Read, Access::Read, Access::Read, Access::Read, Access::Write]);
    let constants: Vec<_> = variant.constants.iter().map(|c| (c.name, c.id, c.default)).collect();
    assert_eq!(
        constants[3..],
        [
            ("residual", 3, 0),
            ("tile_m", 4, 128),
            ("tile_n", 5, 128),
            ("tile_k", 6, 16),
            ("vector_y", 7, 0),
            ("whole", 8, 0)
        ]
    );
    assert_eq!(variant.local_size, [256, 1, 1]);
    // The arrays' sizes are computed from constants: two of 128 rows of 5 quads.
    assert_eq!(variant.shared_bytes, 2 * 128 * 5 * 16);
    assert_eq!(generated::embedding_sum::KERNEL.variants[0].bindings[7].access, Access::ReadWrite);
    assert_eq!(variant.push_bytes as usize, size_of::<generated::linear::Push>());
}

/// Operands of the module's OpCapability instructions.
fn capabilities_of(spirv: &[u32]) -> Vec<u32> {
    let (mut at, mut found) = (5, Vec::new());
    while at < spirv.len() && spirv[at] & 0xffff == 17 {
        found.push(spirv[at + 1]);
        at += (spirv[at] >> 16) as usize;
    }
    found
}

#[test]
fn linear_has_one_dispatch_with_its_epilogue() {
    let op = Linear { bias: true, activation: Some(ActivationKind::GeluErf), residual: Residual::Added };
    let found = on_floor(op, &[Rows(384), Weight(vec![1536, 384]), Weight(vec![1536]), Rows(1536)]);
    let [dispatch] = found.as_slice() else { panic!("{} dispatches", found.len()) };
    check(dispatch);
    assert_eq!(dispatch.grid, [Extent::Fixed(12), tokens(128), Extent::Fixed(1)]);
    // rows_of: tokens; rows; n; k; column; y_columns.
    assert_eq!(push(dispatch), [1, 0, 1536, 384, 0, 1536]);
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
        // Rows of four-wide quads, one of padding.
        assert!((m + n) * (k / 4 + 1) * 16 <= Capabilities::floor().shared_memory);
        assert_eq!((m * k % 1024, n * k % 1024), (0, 0), "every invocation loads as much");
    }
}

#[test]
fn a_weight_over_the_binding_range_is_cut() {
    // mBERT's vocabulary as a product: 367 MB.
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
        (DType::F16, 64, 64, "linear-float16", "linear-matrix"),
        (DType::F16, 36, 64, "linear-float16", "linear-float16"),
        (DType::F16, 64, 20, "linear-float16", "linear-float16"),
        (DType::Bf16, 64, 64, "linear-bfloat16", "linear-bfloat16"),
    ] {
        assert_eq!(name(stored, linear(), &product(n, k), &floor).unwrap(), (1, on_floor));
        assert_eq!(name(stored, linear(), &product(n, k), &able).unwrap(), (1, on_able));
    }
    let software = Capabilities { device_type: DeviceType::Software, ..able.clone() };
    let software = Capabilities { features: vec![Feature::SubgroupShuffle], ..software };
    assert_eq!(name(DType::F16, linear(), &product(12, 20), &software).unwrap().1, "linear-shuffle-float16");
    // A weight over the binding range is cut, and what is cut runs without matrix cores.
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
        (Dropout { p: 0.5, seed: 1, offset: 0 }.into(), &[Rows(8)], "dropout-float16"),
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
        // A vector of weights is float32.
        (Binary::from(BinaryKind::Add).into(), &[Rows(8), Weight(vec![8])], "operand 1 is float32, expected float16"),
    ] {
        let error = name(DType::F16, op, operands, &able).unwrap_err();
        assert!(matches!(&error, crate::Error::Unsupported { .. }) && error.to_string().contains(reason), "{error}");
    }
}

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
fn attention_is_one_dispatch_over_tiles_and_heads() {
    let op = Attention {
        heads: 12,
        kv_heads: 4,
        head_dim: 32,
        scale: 0.5,
        k_column: 384,
        v_column: 512,
        ..Attention::default()
    };
    let found = on_floor(op.clone(), &[Rows(640), Rows(640), Rows(640), Offsets, Offsets]);
    assert_eq!(found.len(), 1);
    check(&found[0]);
    assert_eq!(found[0].grid, [tokens(64), Extent::Fixed(12), Extent::Fixed(1)]);
    assert_eq!(push(&found[0]), [3, 640, 0, 640, 384, 640, 512, 384, 0.5f32.to_bits(), 0, 0, 0, 0, 1, 1]);
    assert_eq!(found[0].bindings[6], found[0].bindings[1], "without biases the queries are bound again");
    assert_eq!(["head_dim", "vector"].map(|n| constant(&found[0], n)), [32, 1]);
    let odd = Attention { v_column: 511, causal: true, ..op.clone() };
    let odd = on_floor(odd, &[Rows(640), Rows(640), Rows(640), Offsets, Offsets]);
    assert_eq!(["vector", "causal"].map(|n| constant(&odd[0], n)), [0, 1]);
    let masked =
        Attention { window: u32::MAX, global_tokens: 3, align_end: true, bias: true, shared_by: 2, ..op.clone() };
    let masked = &on_floor(masked, &[Rows(640), Rows(640), Rows(640), Offsets, Offsets, Weight(vec![24, 257])])[0];
    check(masked);
    assert_eq!(push(masked)[9..], [1 << 30, 3, 1, 128, 24, 2]);
    assert_eq!(["causal", "window", "bias"].map(|n| constant(masked, n)), [0, 1, 1]);
    let wide = Attention { head_dim: 257, ..Attention::default() };
    let error =
        dispatches(wide, &[Rows(257), Rows(257), Rows(257), Offsets, Offsets], &Capabilities::floor()).unwrap_err();
    assert!(error.to_string().contains("head_dim is 257"), "{error}");
}

#[test]
fn attention_takes_the_blocks_it_is_asked_for_or_says_why_not() {
    let mut able = Capabilities { shared_memory: 48 << 10, invocations: 512, ..Capabilities::floor() };
    let found = |stored, blocks: [u32; 2], able: &Capabilities| {
        let op = Attention { heads: 2, kv_heads: 2, head_dim: 64, blocks: Some(blocks), ..Attention::default() };
        dispatches_as(stored, op, &[Rows(128), Rows(128), Rows(128), Offsets, Offsets], able)
            .map(|mut all| all.remove(0))
    };
    let blocks = |found: &Dispatch, names: [&str; 3]| names.map(|name| constant(found, name));
    let own = ["block_q", "block_kv", "invocations"];
    for stored in [DType::F32, DType::F16] {
        let small = found(stored, [32, 128], &able).unwrap();
        check(&small);
        assert_eq!((blocks(&small, own), small.grid[0]), ([32, 128, 128], tokens(32)));
    }
    let fault = |stored, blocks, able: &Capabilities| found(stored, blocks, able).unwrap_err().to_string();
    let most = fault(DType::F32, [128, 128], &able);
    assert!(
        most.contains("128 x 128 x 64 in float32: it needs 86528 bytes") && most.contains("128 x 64 fits"),
        "{most}"
    );
    let lanes = fault(DType::F32, [256, 16], &Capabilities { shared_memory: 64 << 10, ..able.clone() });
    assert!(lanes.contains("block_q takes 1024 invocations, floor has 512"), "{lanes}");
    assert!(fault(DType::F16, [48, 48], &able).contains("block_q is 48, expected a power of two"));
    // With matrix cores of which everything is known.
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    let names = ["subgroups", "keys", "invocations"];
    let matrix = found(DType::F16, [48, 48], &able).unwrap();
    check(&matrix);
    assert_eq!((blocks(&matrix, names), matrix.grid[0]), ([3, 48, 96], Extent::TextTiles { per: 48 }));
    assert!(fault(DType::F16, [128, 128], &able).contains("in float16: it needs 104960 bytes"));
    assert!(fault(DType::F16, [24, 32], &able).contains("block_q is 24, expected a multiple of 16"));
}

#[test]
fn attention_in_float16_takes_matrix_cores_where_heads_fit() {
    let mut able = Capabilities::floor();
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    let operands = [Rows(640), Rows(640), Rows(640), Offsets, Offsets];
    let op = |head_dim, k_column, causal| Attention {
        heads: 2,
        kv_heads: 2,
        head_dim,
        scale: 0.5,
        k_column,
        v_column: 320,
        causal,
        ..Attention::default()
    };
    let found = |stored, op, able: &Capabilities| dispatches_as(stored, op, &operands, able).unwrap().remove(0);
    let matrix = found(DType::F16, op(64, 128, false), &able);
    check(&matrix);
    assert_eq!(matrix.variant.name, "attention-matrix-rows-in-quads");
    assert_eq!(matrix.grid, [Extent::TextTiles { per: 64 }, Extent::Fixed(2), Extent::Fixed(1)]);
    assert_eq!(push(&matrix), [1, 80, 0, 80, 16, 80, 40, 16, 0.5f32.to_bits(), 0, 0, 0, 0, 1, 1]);
    let blocks = |found: &Dispatch| ["head_dim", "keys", "subgroups", "invocations"].map(|n| constant(found, n));
    assert_eq!(blocks(&matrix), [64, 32, 4, 128]);
    // Texts of 0, 1, 64 and 65 tokens have no more tiles than the grid.
    let counts = Counts { tokens: 130, texts: 4 };
    assert_eq!(matrix.grid[0].groups(counts), 6);
    let wide = found(DType::F16, op(128, 128, false), &Capabilities { shared_memory: 48 << 10, ..able.clone() });
    assert_eq!((blocks(&wide), wide.grid[0]), ([128, 64, 8, 256], Extent::TextTiles { per: 128 }));
    assert_eq!(blocks(&found(DType::F16, op(128, 128, false), &able)), [128, 32, 4, 128], "32 KiB are too few");
    let masked = found(DType::F16, Attention { window: 5, shared_by: 2, ..op(64, 128, true) }, &able);
    assert_eq!(["causal", "window", "bias"].map(|n| constant(&masked, n)), [1, 1, 0]);
    // Where nobody knows how matrices lie, keys are not hidden and heads are narrower.
    let mut unknown = able.clone();
    unknown.features.retain(|feature| *feature != Feature::MatrixRowsInQuads);
    let portable = found(DType::F16, op(64, 128, false), &unknown);
    assert_eq!((portable.variant.name, blocks(&portable)), ("attention-matrix", [64, 32, 4, 128]));
    let odd = Capabilities { subgroup_size: 128, ..able.clone() };
    for (stored, op, capabilities) in [
        (DType::F16, op(24, 128, false), &able),
        (DType::F16, op(64, 132, false), &able),
        (DType::F16, op(64, 128, true), &unknown),
        (DType::F16, Attention { window: 1, ..op(64, 128, false) }, &unknown),
        (DType::F16, op(160, 128, false), &unknown),
        (DType::F16, op(64, 128, false), &odd),
        (DType::F16, op(64, 128, false), &Capabilities::floor()),
        (DType::Bf16, op(64, 128, false), &able),
    ] {
        assert!(!found(stored, op.clone(), capabilities).variant.name.starts_with("attention-matrix"), "{op:?}");
    }
}

#[test]
fn rows_and_elements_are_tiled() {
    let norm = &on_floor(LayerNorm { eps: 1e-12 }, &[Rows(384), Weight(vec![384]), Weight(vec![384])])[0];
    check(norm);
    assert_eq!((norm.grid[0], push(norm)), (tokens(8), &[1, 0, 384, 1e-12f32.to_bits()][..]));
    assert_eq!(["lanes", "quads", "held", "vector"].map(|n| constant(norm, n)), [32, 3, 1, 1]);
    let wide = &on_floor(RmsNorm { eps: 1e-6 }, &[Rows(9001), Weight(vec![9001])])[0];
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
fn a_fixed_number_of_rows_is_in_the_push_block() {
    let found = on_floor(Linear::default(), &[Weight(vec![130, 8]), Weight(vec![16, 8])]);
    assert_eq!(found[0].grid[1], Extent::Fixed(2));
    assert_eq!(push(&found[0])[..2], [0, 130]);
    let large = [Weight(vec![128 * 70_000, 1]), Weight(vec![16, 1])];
    let error = dispatches(Linear::default(), &large, &Capabilities::floor()).unwrap_err().to_string();
    assert!(error.contains("70000 workgroups along axis 1, floor allows 65535"), "{error}");
}

#[test]
fn rows_beyond_the_grid_go_on_along_y() {
    let softmax = &on_floor(Softmax::default(), &[Weight(vec![600_000, 2])])[0];
    check(softmax);
    assert_eq!(softmax.grid, [Extent::Fixed(37_500), Extent::Fixed(2), Extent::Fixed(1)]);
    let sums = Reduce { axis: 1, kind: ReduceKind::Sum, stage: Stage::Whole };
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
        assert_eq!(dispatch.grid, [Extent::Fixed(2), Extent::Tiles { dim: Dim::Texts, per: 1 }, Extent::Fixed(1)]);
    }
}
