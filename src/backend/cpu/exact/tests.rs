use super::*;
use crate::backend::cpu::simd::altered;
use crate::backend::cpu::testing::{archs, numbers};

/// Rows with numbers of all magnitudes, with zeros, subnormal numbers, and those that are not finite.
fn rows(depth: usize) -> Vec<Vec<f32>> {
    let plain = numbers(depth, 3);
    let scaled = |f: &dyn Fn(usize) -> i32| plain.iter().enumerate().map(|(i, x)| x * 2f32.powi(f(i))).collect();
    let mut rows: Vec<Vec<f32>> = vec![
        plain.clone(),
        vec![0.0; depth],
        vec![-0.0; depth],
        vec![1e-41; depth],
        scaled(&|i| -(i as i32 % 40)),
        scaled(&|i| 120 - (i as i32 * 37) % 245),
        scaled(&|_| -125),
        vec![f32::MAX; depth],
        vec![f32::MIN_POSITIVE; depth],
        // Mantissas around the one that is halved.
        (0..depth).map(|i| f32::from_bits(0x3ffe_fefe + i as u32 % 4)).collect(),
        (0..depth).map(|i| f32::from_bits(0x3ffe_fefe - i as u32 % 4)).collect(),
    ];
    for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut row = plain.clone();
        row[depth / 2] = odd;
        rows.push(row);
    }
    rows
}

#[test]
fn rows_become_the_integers_of_weights() {
    for depth in [1usize, 7, 64, 131] {
        let balances: [Vec<i32>; 3] = [
            Vec::new(),
            (0..depth).map(|k| -((k * 5) as i32 % 9)).collect(),
            (0..depth).map(|k| if k % 3 == 0 { -250 } else { 0 }).collect(),
        ];
        for (row, b) in rows(depth).iter().flat_map(|row| balances.iter().map(move |b| (row, b))) {
            let mut expected = vec![0; depth];
            let exponent = everywhere::integers(row, b, Side::Rows, &mut expected);
            let Powers { shifts, factors } = Powers::of(b);
            for arch in archs() {
                let (mut q, mut found) = (vec![0.5; depth], 0);
                arch.vectorized(inlined!(|| {
                    found = match b.is_empty() {
                        true => integers(row, &mut q),
                        false => balanced(row, &mut q, inlined!(|k| shifts[k]), inlined!(|k| factors[k])),
                    };
                }));
                assert_eq!(found, exponent, "{arch:?} {b:?} {row:?}");
                let q: Vec<i32> = q.into_iter().map(|q| q as i32).collect();
                assert_eq!(q, expected, "{arch:?} {b:?} {row:?}");
            }
        }
    }
}

#[test]
fn weights_are_packed_alike_whatever_the_caller_has_set() {
    let (columns, depth) = (29, 50);
    let weight = numbers(columns * depth, 5);
    let read = |n: usize, row: &mut [f32]| -> Result<()> {
        row.copy_from_slice(&weight[n * depth..][..depth]);
        Ok(())
    };
    for arch in archs() {
        let pack = || Exact::new(arch, Balance::Weight, [columns, depth], read).unwrap();
        let (plain, other) = (pack(), altered(pack));
        assert!(plain.panels[..] == other.panels[..] && plain.scales == other.scales);
    }
}
