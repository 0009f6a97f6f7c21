//! Attention.

use super::*;
use crate::ops::{Attention, AttentionBackward, Counts};

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
    assert_eq!(found[0].grid, [tokens(64), Extent::Fixed(12), Extent::Continued { axis: 0 }]);
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
    let far = Attention { distances: Some([Some(128), None]), ..op.clone() };
    let far = &on_floor(far, &[Rows(640), Rows(640), Rows(640), Offsets, Offsets, Weight(vec![9, 256])])[0];
    check(far);
    assert_eq!(far.variant.name, "attention-distances");
    let names = ["a_column", "b_column", "distance_columns", "vector"];
    assert_eq!((names.map(|n| constant(far, n)), push(far)[12]), ([128, u32::MAX, 256, 1], 4));
    let capped = Attention { soft_cap: 50.0, ..op.clone() };
    let capped = &on_floor(capped, &[Rows(640), Rows(640), Rows(640), Offsets, Offsets])[0];
    check(capped);
    assert_eq!(["bias", "soft_cap"].map(|n| constant(capped, n)), [0, 50f32.to_bits()]);
    let dropped = Attention { dropout: 0.25, stream: 7, soft_cap: 0.0, ..op.clone() };
    let dropped = &on_floor(dropped, &[Rows(640), Rows(640), Rows(640), Offsets, Offsets, Key])[0];
    check(dropped);
    assert_eq!(["bias", "dropout"].map(|n| constant(dropped, n)), [0, 0.25f32.to_bits()]);
    assert_eq!(push(dropped)[12..14], [7, 1], "the stream takes the place of the biases' reach");
    assert_ne!(dropped.bindings[6], dropped.bindings[1], "and its key theirs");
    let wide = Attention { head_dim: 257, ..Attention::default() };
    let error =
        dispatches(wide, &[Rows(257), Rows(257), Rows(257), Offsets, Offsets], &Capabilities::floor()).unwrap_err();
    assert!(error.to_string().contains("head_dim is 257"), "{error}");
}

#[test]
fn gradients_of_attention_are_one_dispatch_each_after_two_of_places() {
    let (heads, kv_heads, head_dim) = (6, 2, 16);
    let of = Attention { heads, kv_heads, head_dim, scale: 0.5, k_column: 96, v_column: 128, ..Attention::default() };
    let operands = [Rows(96), Rows(96), Rows(160), Rows(160), Rows(160), Offsets, Offsets];
    let packed = on_floor(AttentionBackward { of: of.clone(), packed: true }, &operands);
    let names: Vec<&str> = packed.iter().map(|dispatch| dispatch.variant.name).collect();
    let parts = ["-rows", "-key-rows", "", "-keys", "-values"].map(|part| format!("attention-backward{part}"));
    assert_eq!(names, parts);
    let gradients = &packed[2..];
    assert_eq!(packed[0].grid[0], Extent::Groups { dim: Dim::Tokens, each: 6, more: 0, per: 256 });
    for (dispatch, heads) in gradients.iter().zip([6, 2, 2]) {
        assert_eq!(dispatch.grid, [tokens(64), Extent::Fixed(heads), Extent::Continued { axis: 0 }]);
        assert_eq!(["head_dim", "vector"].map(|name| constant(dispatch, name)), [16, 1]);
        assert_eq!(dispatch.bindings.last(), gradients[0].bindings.last(), "one result");
        assert_eq!(push(dispatch)[..8], [6, 3, 160, 0, 160, 96, 160, 128]);
        assert_eq!(push(dispatch).last(), Some(&0), "no column is left to fill with zeros");
    }
    let apart = on_floor(AttentionBackward { of: of.clone(), packed: false }, &operands);
    let results: Vec<_> = apart[2..].iter().map(|dispatch| dispatch.bindings.last()).collect();
    assert!(results[0] != results[1] && results[1] != results[2] && results[0] != results[2]);
    assert!(apart[2..].iter().all(|dispatch| push(dispatch).last() == Some(&1)));
    let odd = Attention { v_column: 127, ..of };
    let error = dispatches(AttentionBackward { of: odd, packed: true }, &operands, &Capabilities::floor()).unwrap_err();
    assert!(error.to_string().contains("packed, but not every column of q is one"), "{error}");
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
    let small = found(DType::F32, [32, 128], &able).unwrap();
    check(&small);
    assert_eq!((blocks(&small, own), small.grid[0]), ([32, 128, 128], tokens(32)));
    // In 16 bits a query per invocation, in any multiple of 16.
    let own = ["block_q", "block_kv", "head_dim"];
    let half = found(DType::F16, [48, 128], &able).unwrap();
    check(&half);
    assert_eq!(half.variant.name, "attention-registers");
    assert_eq!((blocks(&half, own), half.grid[0]), ([48, 128, 64], Extent::TextTiles { per: 48 }));
    assert_eq!(
        (crate::backend::vulkan::sizes(half.variant, &half.constants), push(&half)[1]),
        (([48, 1, 1], 32 << 10), 16)
    );
    let fault = |stored, blocks, able: &Capabilities| found(stored, blocks, able).unwrap_err().to_string();
    let most = fault(DType::F32, [128, 128], &able);
    assert!(
        most.contains("128 x 128 x 64 in float32: it needs 86528 bytes") && most.contains("128 x 64 fits"),
        "{most}"
    );
    let lanes = fault(DType::F32, [256, 16], &Capabilities { shared_memory: 64 << 10, ..able.clone() });
    assert!(lanes.contains("block_q takes 1024 invocations, floor has 512"), "{lanes}");
    let lanes = fault(DType::F16, [528, 16], &able);
    assert!(lanes.contains("block_q takes 528 invocations, floor has 512"), "{lanes}");
    let most = fault(DType::F16, [48, 256], &able);
    assert!(
        most.contains("48 x 256 x 64 in float16: it needs 65536 bytes") && most.contains("48 x 128 fits"),
        "{most}"
    );
    // With matrix cores and every optional feature.
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    let names = ["subgroups", "keys", "invocations"];
    let matrix = found(DType::F16, [48, 48], &able).unwrap();
    check(&matrix);
    assert_eq!((blocks(&matrix, names), matrix.grid[0]), ([3, 48, 96], Extent::TextTiles { per: 48 }));
    // Blocks that fit one layout of matrix cores alone, and those that fit none.
    let quads = found(DType::F16, [128, 128], &able).unwrap();
    assert_eq!((quads.variant.name, blocks(&quads, names)), ("attention-matrix-rows-in-quads-float16", [8, 128, 256]));
    let mut unknown = able.clone();
    unknown.features.retain(|feature| *feature != Feature::MatrixRowsInLanes);
    assert_eq!(found(DType::F16, [128, 128], &unknown).unwrap().variant.name, "attention-registers");
    assert_eq!(found(DType::F16, [64, 32], &unknown).unwrap().variant.name, "attention-matrix-float16");
    // Four of 64 lanes share a row, in eights.
    let wide = Capabilities { subgroup_size: 64, ..unknown };
    assert_eq!(found(DType::F16, [64, 32], &wide).unwrap().variant.name, "attention-matrix-float16");
    for keys in [16, 48] {
        assert_eq!(found(DType::F16, [64, keys], &wide).unwrap().variant.name, "attention-registers");
    }
    assert!(fault(DType::F16, [128, 256], &able).contains("in float16: it needs 65536 bytes"));
    assert!(fault(DType::F16, [24, 32], &able).contains("block_q is 24, expected a multiple of 16"));
}

#[test]
fn attention_in_16_bits_takes_matrix_cores_where_heads_fit() {
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
    assert_eq!(matrix.variant.name, "attention-matrix-rows-in-quads-float16");
    let bfloat16 = found(DType::Bf16, op(64, 128, false), &able);
    check(&bfloat16);
    assert_eq!((bfloat16.variant.name, push(&bfloat16)), ("attention-matrix-rows-in-quads-bfloat16", push(&matrix)));
    assert_eq!(matrix.grid, [Extent::TextTiles { per: 64 }, Extent::Fixed(2), Extent::Continued { axis: 0 }]);
    assert_eq!(push(&matrix), [1, 80, 0, 80, 16, 80, 40, 16, 0.5f32.to_bits(), 0, 0, 0, 0, 1, 1]);
    let blocks = |found: &Dispatch| ["head_dim", "keys", "subgroups", "invocations"].map(|n| constant(found, n));
    assert_eq!(blocks(&matrix), [64, 32, 4, 128]);
    // Texts of 0, 1, 64 and 65 tokens need no more tiles than the grid has.
    let counts = Counts::new(130, 4);
    assert_eq!(matrix.grid[0].groups(counts), 6);
    let wide = found(DType::F16, op(128, 128, false), &Capabilities { shared_memory: 48 << 10, ..able.clone() });
    assert_eq!((blocks(&wide), wide.grid[0]), ([128, 64, 8, 256], Extent::TextTiles { per: 128 }));
    assert_eq!(blocks(&found(DType::F16, op(128, 128, false), &able)), [128, 32, 4, 128], "32 KiB are too few");
    let masked = found(DType::F16, Attention { window: 5, shared_by: 2, ..op(64, 128, true) }, &able);
    assert_eq!(["causal", "window", "bias"].map(|n| constant(&masked, n)), [1, 1, 0]);
    // Heads of any width, which start at any element; two subgroups share the rows of the widest.
    for (head_dim, k_column, unit) in [(24, 128, 8), (64, 132, 4), (26, 130, 2), (72, 128, 8), (25, 131, 1)] {
        let any = found(DType::F16, op(head_dim, k_column, true), &able);
        check(&any);
        assert_eq!(any.variant.name, matrix.variant.name);
        assert_eq!((constant(&any, "unit"), push(&any)[4]), (unit, k_column as u32 / unit));
    }
    let most = Capabilities { shared_memory: 48 << 10, ..able.clone() };
    let shared = ["keys", "subgroups", "sharing"];
    for (head_dim, expected, per) in [(160, [64, 8, 1], 128), (192, [48, 4, 1], 64), (256, [32, 8, 2], 64)] {
        let wide = found(DType::F16, Attention { heads: 1, kv_heads: 1, ..op(head_dim, 128, false) }, &most);
        check(&wide);
        assert_eq!((shared.map(|name| constant(&wide, name)), wide.grid[0]), (expected, Extent::TextTiles { per }));
    }
    // Terms by distance, where the rows of all distances of a tile fit, in smaller tiles where those do not.
    for (shared_memory, blocks) in [(48 << 10, Some([32, 4, 128])), (40 << 10, Some([32, 2, 64])), (16 << 10, None)] {
        let far = Attention { distances: Some([Some(128), Some(0)]), ..op(64, 128, false) };
        let operands = [&operands[..], &[Weight(vec![9, 256])]].concat();
        let device = Capabilities { shared_memory, ..able.clone() };
        let found = dispatches_as(DType::F16, far, &operands, &device).unwrap().remove(0);
        let Some(expected) = blocks else {
            assert_eq!(found.variant.name, "attention-distances-float16");
            continue;
        };
        check(&found);
        assert_eq!(found.variant.name, "attention-matrix-distances-rows-in-quads-float16");
        assert_eq!(["keys", "subgroups", "invocations"].map(|name| constant(&found, name)), expected);
    }
    // Where the matrix layout is unknown, keys are not hidden and heads are narrower.
    let mut unknown = able.clone();
    unknown.features.retain(|feature| *feature != Feature::MatrixRowsInLanes);
    let portable = found(DType::F16, op(64, 128, false), &unknown);
    assert_eq!((portable.variant.name, blocks(&portable)), ("attention-matrix-float16", [64, 32, 4, 128]));
    let odd = Capabilities { subgroup_size: 128, ..able.clone() };
    for (stored, op, capabilities) in [
        (DType::F16, op(4, 128, false), &able),
        (DType::F16, op(64, 128, true), &unknown),
        (DType::F16, Attention { window: 1, ..op(64, 128, false) }, &unknown),
        (DType::F16, op(160, 128, false), &unknown),
        (DType::F16, op(64, 128, false), &odd),
        (DType::F16, op(64, 128, false), &Capabilities::floor()),
        (DType::Bf16, op(64, 128, false), &unknown),
    ] {
        assert!(!found(stored, op.clone(), capabilities).variant.name.starts_with("attention-matrix"), "{op:?}");
    }
}

#[test]
fn attention_in_float32_is_split_where_the_matrix_layout_is_known_and_heads_fit() {
    let mut able = Capabilities { shared_memory: 48 << 10, storage_buffers: 16, ..Capabilities::floor() };
    (able.features, able.subgroup_size) = (Feature::ALL.to_vec(), 32);
    let operands = [Rows(640), Rows(640), Rows(640), Offsets, Offsets];
    let op = |head_dim, k_column| Attention {
        heads: 2,
        kv_heads: 2,
        head_dim,
        scale: 0.5,
        k_column,
        v_column: 320,
        causal: true,
        ..Attention::default()
    };
    let found = |op, able: &Capabilities| dispatches(op, &operands, able).unwrap().remove(0);
    let split = found(op(64, 132), &able);
    check(&split);
    assert_eq!((split.variant.name, split.grid[0]), ("attention-split-rows-in-quads", Extent::TextTiles { per: 128 }));
    assert_eq!(push(&split)[..8], [1, 160, 0, 160, 33, 160, 80, 32]);
    let names = ["head_dim", "keys", "subgroups", "invocations", "causal"];
    assert_eq!(names.map(|n| constant(&split, n)), [64, 32, 8, 256, 1]);
    let narrow = found(op(32, 128), &able);
    assert_eq!(names.map(|n| constant(&narrow, n)), [32, 32, 4, 128, 1]);
    for (head_dim, k_column, unit) in [(24, 128, 4), (64, 130, 1), (26, 128, 1)] {
        let any = found(op(head_dim, k_column), &able);
        check(&any);
        assert_eq!((any.variant.name, constant(&any, "unit")), (split.variant.name, unit));
    }
    // Wider heads are split before; the widest, which do not fit a subgroup's registers, are shared by several.
    let names = ["head_dim", "keys", "subgroups", "invocations", "sharing"];
    for (head_dim, [keys, subgroups, sharing], per) in
        [(72, [32, 4, 1], 64), (128, [16, 4, 2], 32), (160, [16, 4, 2], 32)]
    {
        let all = dispatches(op(head_dim, 320 - head_dim), &operands, &able).unwrap();
        let [heads @ .., split] = &all[..] else { unreachable!() };
        all.iter().for_each(check);
        assert_eq!([heads.len(), all.len()], [3, 4]);
        assert!(heads.iter().all(|found| found.variant.name == "split-heads"));
        assert_eq!(split.variant.name, "attention-split-prepared-rows-in-quads");
        assert_eq!(names.map(|n| constant(split, n)), [head_dim as u32, keys, subgroups, 32 * subgroups, sharing]);
        assert_eq!(split.grid[0], Extent::TextTiles { per });
    }
    let names = ["head_dim", "keys", "subgroups", "invocations", "causal"];
    let mut unknown = able.clone();
    unknown.features.retain(|feature| *feature != Feature::MatrixRowsInQuads);
    let other = found(op(64, 132), &unknown);
    assert_eq!((other.variant.name, &other.grid), ("attention-split", &split.grid));
    unknown.features.retain(|feature| *feature != Feature::MatrixRowsInLanes);
    let small = Capabilities { shared_memory: 32 << 10, ..able.clone() };
    assert_eq!(names.map(|n| constant(&found(op(64, 128), &small), n)), [64, 32, 4, 128, 1]);
    let dropped = Attention { dropout: 0.1, ..op(64, 128) };
    let given = [&operands[..], &[Key]].concat();
    assert_eq!(dispatches(dropped, &given, &able).unwrap().remove(0).variant.name, "attention-masked");
    for (op, capabilities) in [
        (op(25, 128), &able),
        (op(96, 128), &Capabilities { shared_memory: 8 << 10, ..able.clone() }),
        (Attention { blocks: Some([64, 64]), ..op(64, 128) }, &able),
        (op(64, 128), &unknown),
        (op(64, 128), &Capabilities::floor()),
    ] {
        assert_eq!(found(op.clone(), capabilities).variant.name, "attention-masked", "{op:?}");
    }
}
