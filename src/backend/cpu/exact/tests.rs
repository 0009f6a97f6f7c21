use super::*;
use crate::backend::cpu::exact::weight::Unit;
use crate::backend::cpu::simd::{ByteUnit, WordUnit, altered};
use crate::backend::cpu::testing::{archs, numbers};
use crate::quant::everywhere::{self, Side};

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
            let powers = Powers::of(b);
            for arch in archs() {
                let (mut q, mut found) = (vec![0.5; depth], 0);
                arch.vectorized(inlined!(|| {
                    found = match b.is_empty() {
                        true => integers(row, &mut q),
                        false => integers_of(row, Some(&powers), &mut q, inlined!(|x| whole(x))),
                    };
                }));
                assert_eq!(found, exponent, "{arch:?} {b:?} {row:?}");
                let q: Vec<i32> = q.into_iter().map(|q| q as i32).collect();
                assert_eq!(q, expected, "{arch:?} {b:?} {row:?}");
                let mut bits = vec![1; depth];
                arch.vectorized(inlined!(|| {
                    let powers = Some(&powers).filter(|_| !b.is_empty());
                    found = integers_of(row, powers, &mut bits, inlined!(|x| whole_bits(x)));
                }));
                assert_eq!((found, bits), (exponent, q), "{arch:?} {b:?} {row:?}");
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
        let panels = match (&plain.form, &other.form) {
            (Form::Floats { panels: one, .. }, Form::Floats { panels: two, .. }) => one[..] == two[..],
            (Form::Digits { panels: one, .. }, Form::Digits { panels: two, .. }) => one == two,
            (Form::Words { panels: one, .. }, Form::Words { panels: two, .. }) => one == two,
            _ => false,
        };
        assert!(panels && plain.scales == other.scales);
        let product = |weight: &Exact| {
            let mut y = vec![0.0; 3 * columns];
            multiply(arch, Team::Alone, &weight_of_ones(depth), weight, |_, _| {}, &mut y).unwrap();
            y
        };
        assert_eq!(product(&plain), product(&other));
    }
}

fn weight_of_ones(depth: usize) -> Vec<f32> {
    vec![1.0; 3 * depth]
}

#[test]
fn digits_and_words_have_the_bits_of_float64() {
    let units = || {
        let digits = ByteUnit::all().into_iter().map(Unit::Digits);
        digits.chain(WordUnit::try_new().map(Unit::Words)).collect::<Vec<Unit>>()
    };
    for (count, columns, depth) in [(1, 1, 1), (3, 65, 9), (33, 70, 64), (40, 600, 131), (5, 3, 4097)] {
        let mut x: Vec<f32> = rows(depth).into_iter().flatten().collect();
        x.resize(count * depth, 0.3);
        let mut weight = numbers(columns * depth, 5);
        weight.iter_mut().step_by(7).for_each(|w| *w *= 1e-6);
        weight[0] = f32::MAX;
        if columns > 2 {
            weight[depth] = f32::INFINITY;
        }
        let read = |n: usize, row: &mut [f32]| -> Result<()> {
            row.copy_from_slice(&weight[n * depth..][..depth]);
            Ok(())
        };
        for by in [Balance::Weight, Balance::None] {
            let product = |arch: Arch, unit: Unit, team: Team| {
                let weight = Exact::on(arch, unit, by, [columns, depth], read).unwrap();
                let has = match weight.form {
                    Form::Floats { .. } => Unit::Floats,
                    Form::Digits { unit, .. } => Unit::Digits(unit),
                    Form::Words { unit, .. } => Unit::Words(unit),
                };
                assert_eq!(has, unit);
                let mut y = vec![0.0; count * columns];
                multiply(arch, team, &x, &weight, |_, _| {}, &mut y).unwrap();
                y.into_iter().map(|y| if y.is_nan() { u32::MAX } else { y.to_bits() }).collect::<Vec<u32>>()
            };
            let expected = product(Arch::new(), Unit::Floats, Team::Alone);
            for (arch, unit) in archs().into_iter().flat_map(|arch| units().into_iter().map(move |unit| (arch, unit))) {
                for team in [Team::Alone, Team::All(2)] {
                    assert_eq!(product(arch, unit, team), expected, "{arch:?} {unit:?} {count} {columns} {depth}");
                }
            }
        }
    }
    // Every product of digits has one sign, in as many terms as 32 bits hold.
    for unit in ByteUnit::all() {
        let depth = 21_888;
        assert!(unit.digit_bytes(depth).is_some() && unit.digit_bytes(depth + 1).is_none());
        let row = vec![-LARGEST as f32; depth];
        let read = |_: usize, to: &mut [f32]| -> Result<()> {
            to.copy_from_slice(&row);
            Ok(())
        };
        let weight = Exact::on(Arch::new(), Unit::Digits(unit), Balance::None, [2, depth], read).unwrap();
        let mut y = [0.0; 2];
        multiply(Arch::new(), Team::Alone, &row, &weight, |_, _| {}, &mut y).unwrap();
        assert_eq!(y, [(i128::from(LARGEST).pow(2) * depth as i128) as f32; 2], "{unit:?}");
    }
}
