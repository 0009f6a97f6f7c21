//! Gradients of attention bit for bit against themselves; `tests/cases/attending.py` has their float64 reference.

use super::*;
use crate::backend::cpu::testing::{Operand as Given, archs, numbers, run as run_op, same_bits};
use crate::ops::{Attention, Counts, Dim, Shape};
use crate::text::packing;

fn op(causal: bool) -> AttentionBackward {
    let of = Attention {
        heads: 4,
        kv_heads: 2,
        head_dim: 5,
        scale: 0.4,
        k_column: 20,
        v_column: 30,
        causal,
        ..Attention::default()
    };
    AttentionBackward { of, packed: true }
}

/// The gradient of `x [T, 40]`, which holds queries, keys and values.
fn gradient(op: &AttentionBackward, [g, y, x]: [&[f32]; 3], lengths: &[usize], arch: Arch) -> Vec<f32> {
    let offsets = packing::offsets(lengths.iter().copied());
    let [narrow, wide] = [20, 40].map(|columns| Shape::matrix(Dim::Tokens, columns));
    let floats = |shape: &Shape, values| Given::Floats(shape.clone(), values);
    let indices = || Given::Indices(Shape::vector(Dim::Boundaries), &offsets);
    let operands = [
        floats(&narrow, g),
        floats(&narrow, y),
        floats(&wide, x),
        floats(&wide, x),
        floats(&wide, x),
        indices(),
        indices(),
    ];
    run_op(op.clone(), &operands, Counts::new(lengths.iter().sum(), lengths.len()), arch)
}

#[test]
fn a_text_has_the_same_bits_alone_and_among_others() {
    let lengths = [30, 5, 0, 100, 1, 70];
    let tokens: usize = lengths.iter().sum();
    let [g, y, x] = [(20, 1), (20, 2), (40, 3)].map(|(columns, seed)| numbers(tokens * columns, seed));
    for (arch, causal) in archs().into_iter().flat_map(|arch| [(arch, false), (arch, true)]) {
        let all = gradient(&op(causal), [&g, &y, &x], &lengths, arch);
        let mut start = 0;
        for length in lengths {
            let [narrow, wide] = [20, 40].map(|columns| start * columns..(start + length) * columns);
            let own = [&g[narrow.clone()], &y[narrow], &x[wide.clone()]];
            let alone = gradient(&op(causal), own, &[length], arch);
            assert!(same_bits(&alone, &all[wide]), "{length} tokens {arch:?}");
            start += length;
        }
    }
}

#[test]
fn keys_that_nobody_sees_change_no_bit() {
    let lengths = [3, 90];
    let [g, y, x] = [(20, 1), (20, 2), (40, 3)].map(|(columns, seed)| numbers(93 * columns, seed));
    for arch in archs() {
        let clean = gradient(&op(true), [&g, &y, &x], &lengths, arch);
        let mut hostile = x.clone();
        // Key and value 40 of the second text.
        hostile[43 * 40 + 20..44 * 40].fill(f32::NAN);
        let found = gradient(&op(true), [&g, &y, &hostile], &lengths, arch);
        for (row, (found, clean)) in found.chunks(40).zip(clean.chunks(40)).enumerate() {
            assert_eq!(found[..20].iter().all(|x| x.is_nan()), row >= 43, "{row} {arch:?}");
            assert!(row >= 43 || same_bits(&found[..20], &clean[..20]), "{row} {arch:?}");
        }
    }
}
