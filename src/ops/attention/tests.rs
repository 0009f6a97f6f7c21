//! Sight, and checks of operands.

use super::*;
use crate::ops::Op;

#[test]
fn a_query_sees_what_the_definition_says() {
    for (queries, keys) in [(1, 1), (7, 7), (3, 9), (9, 3), (5, 0)] {
        for (causal, align_end) in [(false, false), (true, false), (false, true), (true, true)] {
            for (window, global_tokens) in [(0, 0), (0, 2), (1, 0), (2, 1), (3, 4), (u32::MAX, 0), (1, u32::MAX)] {
                let op = Attention { causal, align_end, window, global_tokens, ..Attention::default() };
                for i in 0..queries {
                    let place = i as i64 + if align_end { keys as i64 - queries as i64 } else { 0 };
                    let sight = op.sight(op.place(i, queries, keys), keys);
                    for j in 0..keys {
                        let global = |place: i64| (0..i64::from(global_tokens)).contains(&place);
                        let near = window == 0 || place.abs_diff(j as i64) <= u64::from(window);
                        let seen = (near || global(place) || global(j as i64)) && (!causal || j as i64 <= place);
                        assert_eq!(j < sight.leading || sight.near.contains(&j), seen, "{op:?} {i} {j}");
                    }
                    assert!(sight.leading <= keys && sight.near.end <= keys, "{op:?} {i}: {sight:?}");
                }
            }
        }
    }
}

#[test]
fn operands_are_checked_by_name() {
    let matrix = |rows, columns| Shape(vec![rows, Dim::Fixed(columns)]);
    let offsets = Shape::vector(Dim::Boundaries);
    let op = Attention { heads: 4, kv_heads: 2, head_dim: 8, bias: true, ..Attention::default() };
    let infer = |op: &Attention, bias: &[&Shape]| {
        let (q, kv) = (matrix(Dim::Tokens, 32), matrix(Dim::Fixed(9), 16));
        Op::from(op.clone()).infer(&[&[&q, &kv, &kv, &offsets, &offsets], bias].concat())
    };
    assert_eq!(infer(&op, &[&Shape::fixed(&[8, 7])]).unwrap(), [matrix(Dim::Tokens, 32)]);
    for (bias, part) in [(&[4, 6][..], "bias has shape [4, 6]"), (&[6, 7], "a multiple of 4 rows"), (&[0, 7], "rows")] {
        let error = infer(&op, &[&Shape::fixed(bias)]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(infer(&op, &[]).unwrap_err().to_string().contains("5 operands, expected 6"));
    let op = Attention { bias: false, distances: Some([None, Some(16)]), ..op };
    assert!(infer(&op, &[&Shape::fixed(&[7, 32])]).is_ok());
    for rows_and_columns in [[6, 32], [7, 31]] {
        let error = infer(&op, &[&Shape::fixed(&rows_and_columns)]).unwrap_err().to_string();
        assert!(error.contains("an odd number of rows and at least 32 columns"), "{error}");
    }
    let both = Attention { bias: true, ..op.clone() };
    let error = infer(&both, &[&Shape::fixed(&[8, 7]), &Shape::fixed(&[7, 32])]).unwrap_err().to_string();
    assert!(error.contains("bias, distances and dropout exclude each other"), "{error}");
    let op = Attention { distances: None, ..op };
    for (op, part) in [
        (Attention { bias: false, shared_by: 0, ..op.clone() }, "shared_by is 0"),
        (Attention { bias: false, soft_cap: -1.0, ..op.clone() }, "soft_cap is -1"),
        (Attention { bias: false, soft_cap: f32::NAN, ..op }, "soft_cap is NaN"),
    ] {
        let error = infer(&op, &[]).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
