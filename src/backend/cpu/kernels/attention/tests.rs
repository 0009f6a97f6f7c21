//! Attention against a float64 reference, and bit for bit against itself.

use super::*;
use crate::backend::cpu::testing::{Operand as Given, archs, assert_close, numbers, run as run_op, same_bits};
use crate::ops::{Counts, Dim, Shape};
use crate::text::packing;

fn op(heads: usize, kv_heads: usize, head_dim: usize) -> Attention {
    let (q, k) = (heads * head_dim, kv_heads * head_dim);
    let scale = 1.0 / (head_dim as f32).sqrt();
    Attention {
        heads,
        kv_heads,
        head_dim,
        scale,
        q_column: 1,
        k_column: 1 + q,
        v_column: 1 + q + k,
        ..Attention::default()
    }
}

/// Queries, keys and values side by side, after one unused column.
fn width(op: &Attention) -> usize {
    op.v_column + op.kv_heads * op.head_dim
}

fn attention(op: &Attention, x: &[f32], lengths: &[usize], arch: Arch) -> Vec<f32> {
    let offsets = packing::offsets(lengths.iter().copied());
    let shape = Shape::matrix(Dim::Tokens, width(op));
    let operands = [
        Given::Floats(shape.clone(), x),
        Given::Floats(shape.clone(), x),
        Given::Floats(shape, x),
        Given::Indices(Shape::vector(Dim::Boundaries), &offsets),
        Given::Indices(Shape::vector(Dim::Boundaries), &offsets),
    ];
    run_op(op.clone(), &operands, Counts::new(lengths.iter().sum(), lengths.len()), arch)
}

fn reference(op: &Attention, x: &[f32], lengths: &[usize]) -> Vec<f64> {
    let (width, dim) = (width(op), op.head_dim);
    let mut y = Vec::new();
    let mut start = 0;
    for length in lengths {
        let at = |t: usize, c: usize| f64::from(x[(start + t) * width + c]);
        for i in 0..*length {
            for h in 0..op.heads {
                let kv = h * op.kv_heads / op.heads;
                let near = |j: usize| op.window == 0 || i.abs_diff(j) <= op.window as usize;
                let seen = |j: &usize| (!op.causal || *j <= i) && (near(*j) || i.min(*j) < op.global_tokens as usize);
                let keys: Vec<usize> = (0..*length).filter(seen).collect();
                let scores: Vec<f64> = keys
                    .iter()
                    .map(|j| {
                        let dot: f64 = (0..dim)
                            .map(|d| at(i, op.q_column + h * dim + d) * at(*j, op.k_column + kv * dim + d))
                            .sum();
                        dot * f64::from(op.scale)
                    })
                    .collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let total: f64 = scores.iter().map(|s| (s - most).exp()).sum();
                for d in 0..dim {
                    let sum: f64 = scores
                        .iter()
                        .zip(&keys)
                        .map(|(s, j)| (s - most).exp() * at(*j, op.v_column + kv * dim + d))
                        .sum();
                    y.push(sum / total);
                }
            }
        }
        start += length;
    }
    y
}

#[test]
fn texts_and_heads_around_the_tiles_match_float64() {
    let lengths = [1, 2, 0, 7, 8, 15, 16, 17, 31, 33, 47, 48, 49];
    for arch in archs() {
        for (heads, kv_heads, dim) in
            [(1, 1, 1), (2, 2, 32), (3, 1, 5), (4, 2, 17), (2, 1, 64), (1, 1, 80), (2, 2, 128)]
        {
            let op = op(heads, kv_heads, dim);
            let x = numbers(lengths.iter().sum::<usize>() * width(&op), dim as u64);
            // Scores of size 4 sqrt(dim) scale, rounded sqrt(dim) times, pass through exp into a mean of values below 3.
            let tolerance = f64::from(f32::EPSILON) * 3.0 * (4.0 * (dim as f64).sqrt() + 12.0);
            assert_close(
                &attention(&op, &x, &lengths, arch),
                &reference(&op, &x, &lengths),
                &format!("{op:?} {arch:?}"),
                |_| tolerance,
            );
        }
    }
}

#[test]
fn long_texts_and_large_scores() {
    let op = op(2, 2, 32);
    for arch in archs() {
        let mut x = numbers(450 * width(&op), 3);
        assert_close(&attention(&op, &x, &[450], arch), &reference(&op, &x, &[450]), "long", |_| 2e-5);
        x.truncate(40 * width(&op));
        for x in x.iter_mut() {
            *x *= 30.0;
        }
        // Scores in the thousands: their rounding alone is about 1e-4.
        assert_close(&attention(&op, &x, &[40], arch), &reference(&op, &x, &[40]), "large", |_| 0.1);
    }
}

#[test]
fn a_text_has_the_same_bits_alone_and_among_others() {
    let op = op(3, 3, 32);
    for arch in archs() {
        let lengths = [30, 5, 100, 1, 64];
        let tokens: usize = lengths.iter().sum();
        let x = numbers(tokens * width(&op), 4);
        let all = attention(&op, &x, &lengths, arch);
        let mut start = 0;
        for length in lengths {
            let alone = attention(&op, &x[start * width(&op)..(start + length) * width(&op)], &[length], arch);
            assert!(same_bits(&alone, &all[start * 96..(start + length) * 96]), "{length} tokens {arch:?}");
            start += length;
        }
    }
}

#[test]
fn nan_and_infinity_reach_their_text_only() {
    let op = op(1, 1, 16);
    for arch in archs() {
        let mut x = numbers(30 * width(&op), 5);
        let clean = attention(&op, &x, &[10, 10, 10], arch);
        x[12 * width(&op) + op.k_column] = f32::NAN;
        let y = attention(&op, &x, &[10, 10, 10], arch);
        assert!(y[160..320].iter().all(|y| y.is_nan()));
        assert!(same_bits(&y[..160], &clean[..160]) && same_bits(&y[320..], &clean[320..]));
        x[12 * width(&op) + op.k_column] = f32::INFINITY;
        assert!(attention(&op, &x, &[10, 10, 10], arch)[160..320].iter().any(|y| y.is_nan()));
    }
}

#[test]
fn causal_queries_see_no_later_key_and_touch_none() {
    let op = Attention { causal: true, ..op(2, 1, 20) };
    let lengths = [1, 70, 0, 7, 200];
    for arch in archs() {
        let x = numbers(278 * width(&op), 6);
        let clean = attention(&op, &x, &lengths, arch);
        assert_close(&clean, &reference(&op, &x, &lengths), "causal", |_| 2e-5);
        // Keys and values of the last text's row 100.
        let mut hostile = x.clone();
        hostile[178 * width(&op) + op.k_column..179 * width(&op)].fill(f32::NAN);
        let y = attention(&op, &hostile, &lengths, arch);
        assert!(same_bits(&y[..178 * 40], &clean[..178 * 40]), "{arch:?}");
        assert!(y[178 * 40..].iter().all(|y| y.is_nan()), "{arch:?}");
    }
}

/// Chains of 384 keys: one before, one after and some around the window are skipped.
#[test]
fn chains_that_nobody_sees_are_left_out_and_change_no_bit() {
    for (window, global_tokens, causal) in [(1, 0, false), (50, 3, false), (400, 0, true), (9, 385, true)] {
        let op = Attention { window, global_tokens, causal, ..op(2, 1, 8) };
        let lengths = [3, 1200];
        for arch in archs() {
            let x = numbers(1203 * width(&op), 10);
            let clean = attention(&op, &x, &lengths, arch);
            assert_close(&clean, &reference(&op, &x, &lengths), &format!("{op:?} {arch:?}"), |_| 2e-5);
            let alone = attention(&op, &x[3 * width(&op)..], &lengths[1..], arch);
            assert!(same_bits(&alone, &clean[3 * 16..]), "{op:?} {arch:?}");
            // Key and value 700 of the long text.
            let mut hostile = x.clone();
            hostile[703 * width(&op) + op.k_column..704 * width(&op)].fill(f32::INFINITY);
            let y = attention(&op, &hostile, &lengths, arch);
            for query in 0..1200usize {
                let near = query.abs_diff(700) <= window as usize || query < global_tokens as usize;
                let seen = near && (!causal || query >= 700);
                let row = (query + 3) * 16..(query + 4) * 16;
                assert_eq!(y[row.clone()].iter().all(|y| !y.is_finite()), seen, "{op:?} {query} {arch:?}");
                assert!(seen || same_bits(&y[row.clone()], &clean[row]), "{op:?} {query} {arch:?}");
            }
        }
    }
}

#[test]
fn queries_of_one_text_see_keys_of_another_and_zeros_where_there_are_none() {
    let op = Attention { q_column: 0, k_column: 0, v_column: 0, ..op(2, 2, 8) };
    let (q, k, v) = (numbers(9 * 16, 7), numbers(40 * 16, 8), numbers(40 * 16, 9));
    let run = |queries: &[u32], keys: &[u32]| {
        let operands = [
            Given::Floats(Shape::matrix(Dim::Tokens, 16), &q[..*queries.last().unwrap() as usize * 16]),
            Given::Floats(Shape::fixed(&[40, 16]), &k),
            Given::Floats(Shape::fixed(&[40, 16]), &v),
            Given::Indices(Shape::vector(Dim::Boundaries), queries),
            Given::Indices(Shape::fixed(&[keys.len()]), keys),
        ];
        let counts = Counts::new(*queries.last().unwrap() as usize, queries.len() - 1);
        run_op(op.clone(), &operands, counts, Arch::new())
    };
    let y = run(&[0, 3, 5, 9], &[0, 40, 40, 40]);
    assert!(same_bits(&y[..48], &run(&[0, 3], &[0, 40])));
    assert!(y[48..].iter().all(|y| *y == 0.0));
}
