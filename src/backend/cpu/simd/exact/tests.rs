use super::*;
use crate::backend::cpu::simd::{Arch, LARGEST, Widest};

/// Digits in -LARGEST ..= LARGEST, often the largest.
fn digits(count: usize, seed: u64) -> Vec<i32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state >> 33) as i32
    };
    let digit = |x: i32| match x % 4 {
        0 => LARGEST,
        1 => -LARGEST,
        _ => x % (LARGEST + 1),
    };
    (0..count).map(|i| if seed == 0 { LARGEST - (i % 2) as i32 } else { digit(next()) }).collect()
}

#[test]
fn sums_are_those_of_wide_integers() {
    for depth in [1usize, 15, 127, 128, 129, 130, 4097, 43690, 43691, 70000, 131_073] {
        // From 24 rows on a panel of few terms is widened.
        let (rows, columns) = match depth {
            ..200 => (29, 50),
            200..5000 => (13, 14),
            _ => (3, 2),
        };
        for seed in [0, 7] {
            let (a, b) = (digits(rows * depth, seed), digits(columns * depth, seed * 3));
            let wide: Vec<f64> = a.iter().map(|a| f64::from(*a)).collect();
            let expected = (0..rows * columns).map(|at| {
                let [a, b] = [&a[at / columns * depth..], &b[at % columns * depth..]].map(|of| &of[..depth]);
                a.iter().zip(b).map(|(a, b)| i128::from(*a) * i128::from(*b)).sum::<i128>() as f32
            });
            let expected: Vec<f32> = expected.collect();
            let widest = |arch: Arch| (1..=Widest::of_wide(arch).vectors).map(move |vectors| (arch, vectors));
            for (arch, vectors) in Arch::all().into_iter().flat_map(widest) {
                let width = vectors * Widest::of_wide(arch).lanes;
                let padded = columns.next_multiple_of(width);
                let mut panels = vec![0.0f32; padded * depth];
                for (at, b) in b.iter().enumerate() {
                    let (n, k) = (at / depth, at % depth);
                    panels[n / width * width * depth + k * width + n % width] = *b as f32;
                }
                let (row_scales, column_scales) = (vec![1.0; rows], vec![1.0; padded]);
                let mut y = vec![0.0f32; rows * columns];
                ExactProduct {
                    a: (&wide, depth),
                    rows,
                    depth,
                    panels: &panels,
                    panel_depth: depth,
                    vectors,
                    columns,
                    row_scales: &row_scales,
                    column_scales: &column_scales,
                    out: (&mut y, columns),
                }
                .run(arch);
                assert_eq!(y, expected, "{depth} {arch:?} {vectors}");
            }
        }
    }
}

#[test]
fn sums_are_rounded_once_to_nearest_with_ties_to_even() {
    for places in 1..60 {
        for mantissa in [1u128 << 23, (1 << 23) + 1, (1 << 24) - 1, (1 << 24) - 2, 0x00ab_cdef] {
            for off in -3i128..=3 {
                for sign in [1, -1] {
                    // Around the middle between two float32 numbers.
                    let sum = sign * ((mantissa << places) as i128 + (1i128 << (places - 1)) + off);
                    let high = (sum + (1 << 23)).div_euclid(1 << 24) << 24;
                    let found = rounded(high as f64, (sum - high) as f64, 1.0, 1.0);
                    assert_eq!(found.to_bits(), (sum as f32).to_bits(), "{sum}");
                }
            }
        }
    }
}

#[test]
fn results_beyond_the_normal_numbers_are_infinite_or_zeros_of_the_sign() {
    let power = |n: i32| 2f64.powi(n);
    for (rest, row, column, expected) in [
        (1.0, power(64), power(64), f32::INFINITY),
        (-1.0, power(300), power(-172), f32::NEG_INFINITY),
        (8_388_607.0, power(60), power(44), 8_388_607.0 * 2f32.powi(104)),
        (1.0, power(-63), power(-63), f32::MIN_POSITIVE),
        (1.0, power(-63), power(-64), 0.0),
        (-1.0, power(-400), power(200), -0.0),
        (0.0, power(-400), power(200), 0.0),
    ] {
        assert_eq!(rounded(0.0, rest, row, column).to_bits(), expected.to_bits(), "{rest} {row:e} {column:e}");
    }
    // Rounded first, then measured: this becomes the least normal number.
    let (high, rest) = ((1u64 << 40) as f64, -1.0);
    assert_eq!(rounded(high, rest, power(-100), power(-66)), f32::MIN_POSITIVE);
    assert!(rounded(16_777_216.0, 1.0, f64::NAN, 1.0).is_nan() && rounded(0.0, 0.0, 1.0, f64::NAN).is_nan());
}
