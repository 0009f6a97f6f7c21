use super::*;
use crate::backend::cpu::testing::{archs, numbers, same_bits};
use crate::ops::ActivationKind;

fn product(arch: Arch, team: Team, x: &[f32], w: &[f32], n: usize, k: usize) -> Vec<f32> {
    let weight = Packed::new(arch, n, k, |row, out| {
        out.copy_from_slice(&w[row * k..][..k]);
        Ok(())
    })
    .unwrap();
    let mut y = vec![0.0; x.len() / k.max(1) * n];
    multiply(arch, team, x, &weight, Finish::default(), &mut y).unwrap();
    y
}

#[test]
fn a_row_has_the_same_bits_among_any_number_of_rows() {
    for arch in archs() {
        for (n, k) in [(1, 1), (5, 2), (47, 33), (48, 384), (49, 385), (100, 800)] {
            let (x, w) = (numbers(200 * k, 1), numbers(n * k, 2));
            let all = product(arch, Team::Alone, &x, &w, n, k);
            for rows in 1..=200 {
                let some = product(arch, Team::Alone, &x[(200 - rows) * k..], &w, n, k);
                assert!(same_bits(&some, &all[(200 - rows) * n..]), "{rows} rows, [{n}, {k}], {arch:?}");
                if rows > 24 && k > 100 {
                    break;
                }
            }
        }
    }
}

/// Wide products pack their rows, narrow ones read them in place; blocks of rows end in tiles of any height.
#[test]
fn packed_rows_give_the_same_bits() {
    for arch in archs() {
        let (n, narrow, k) = (1000, 40, 800);
        let (x, w) = (numbers(700 * k, 1), numbers(n * k, 2));
        let expected = product(arch, Team::Alone, &x, &w[..narrow * k], narrow, k);
        for rows in [31, 32, 37, 512, 515] {
            let y = product(arch, Team::Alone, &x[..rows * k], &w, n, k);
            for (y, expected) in y.chunks_exact(n).zip(expected.chunks_exact(narrow)) {
                assert!(same_bits(&y[..narrow], expected), "{rows} rows, {arch:?}");
            }
        }
    }
}

#[test]
fn rows_apart_leave_what_is_between_alone() {
    for arch in archs() {
        let (rows, columns, depth, gap) = (11, 21, 19, 3);
        let (a, b) = (numbers(rows * depth, 3), numbers(columns * depth, 4));
        let weight = Packed::new(arch, columns, depth, |n, out| {
            out.copy_from_slice(&b[n * depth..][..depth]);
            Ok(())
        })
        .unwrap();
        let mut out = vec![7.5f32; rows * (columns + gap)];
        Product {
            a: (&a, depth),
            rows,
            depth,
            panels: &weight.panels,
            panel_depth: depth,
            vectors: Widest::of_floats(arch).vectors,
            columns,
            finish: Finish { activation: Some(ActivationKind::Relu), ..Finish::default() },
            out: (&mut out, columns + gap),
            ..Product::default()
        }
        .run(arch);
        for row in out.chunks_exact(columns + gap) {
            assert_eq!(row[columns..], [7.5; 3], "{arch:?}");
            assert!(row[..columns].iter().all(|x| *x >= 0.0 && *x != 7.5));
        }
    }
}
