use super::{NAN, bits, errors};
use crate::backend::cpu::simd::{Arch, altered};
use crate::backend::cpu::testing::{Operand, numbers, run, run_everywhere};
use crate::ops::{ActivationKind, Counts, Dim, Linear, Matmul, Residual, Shape};
use crate::quant::everywhere::{Columns, NOT_FINITE, Side, integers};

/// `sum 2^exponent` as float32, from integers alone.
pub(super) fn assembled(sum: i128, exponent: i32) -> f32 {
    let size = sum.unsigned_abs();
    let length = 128 - size.leading_zeros() as i32;
    let drop = (length - 24).max(0);
    let (kept, rest) = (size >> drop, size & ((1 << drop) - 1));
    let half = (1u128 << drop) >> 1;
    let up = rest > half || (rest == half && drop > 0 && kept & 1 == 1);
    let (mut mantissa, mut exponent) = (kept + u128::from(up), exponent + drop);
    while mantissa >= 1 << 24 {
        (mantissa, exponent) = (mantissa >> 1, exponent + 1);
    }
    while mantissa > 0 && mantissa < 1 << 23 {
        (mantissa, exponent) = (mantissa << 1, exponent - 1);
    }
    let field = exponent + 150;
    let positive = match field {
        _ if mantissa == 0 => 0.0,
        255.. => f32::INFINITY,
        ..1 => 0.0,
        _ => f32::from_bits(((field as u32) << 23) | (mantissa as u32 & 0x007f_ffff)),
    };
    if sum < 0 { -positive } else { positive }
}

/// `x W^T` by integers of 128 bits.
fn product(x: &[f32], w: &[f32], [n, k]: [usize; 2], balanced: bool) -> Vec<f32> {
    let mut columns = Columns::new(k);
    columns.add(0, w);
    let b = if balanced { columns.balance() } else { Vec::new() };
    let rows = |of: &[f32], side| {
        let row = |row: &[f32]| {
            let mut q = vec![0; k];
            let exponent = integers(row, &b, side, &mut q);
            (q, exponent)
        };
        of.chunks_exact(k).map(row).collect::<Vec<_>>()
    };
    let (x, w) = (rows(x, Side::Rows), rows(w, Side::Weight));
    let mut y = Vec::with_capacity(x.len() * n);
    for (x, ex) in &x {
        for (w, ew) in &w {
            let sum = x.iter().zip(w).map(|(x, w)| i128::from(*x) * i128::from(*w)).sum();
            let whole = *ex != NOT_FINITE && *ew != NOT_FINITE;
            y.push(if whole { assembled(sum, ex + ew - 44) } else { f32::from_bits(NAN) });
        }
    }
    y
}

fn linear(x: &[f32], w: &[f32], [n, k]: [usize; 2]) -> Vec<f32> {
    let shape = [n, k];
    let operands = [Operand::Floats(Shape::matrix(Dim::Tokens, k), x), Operand::Weight(&shape, w)];
    run_everywhere(Linear::default(), &operands, Counts::new(x.len() / k, 1))
}

/// Numbers times powers of two.
fn scaled(of: &[f32], power: impl Fn(usize) -> i32) -> Vec<f32> {
    of.iter().enumerate().map(|(i, x)| x * 2f32.powi(power(i))).collect()
}

#[test]
fn products_are_those_of_wide_integers() {
    for (m, n, k) in [(1, 1, 1), (2, 3, 15), (9, 25, 127), (5, 13, 128), (17, 40, 129), (3, 2, 4097), (130, 30, 33)] {
        let (x, w) = (numbers(m * k, 1), numbers(n * k, 2));
        let mut odd = x.clone();
        odd[0] = f32::MAX;
        for (number, (x, w)) in [
            (x.clone(), w.clone()),
            // Columns of weights of many sizes, whose columns of x are as large as they are small, and not.
            (scaled(&x, |i| (i % k % 5 * 11) as i32), scaled(&w, |i| -((i % k % 5 * 11) as i32))),
            (x.clone(), scaled(&w, |i| -((i % k % 7 * 30) as i32))),
            // Against each other: the least and the largest numbers; rows of zeros; a column of zeros.
            (
                scaled(&x, |i| if i / k % 2 == 0 { -125 } else { 125 }),
                scaled(&w, |i| if i / k % 2 == 0 { 125 } else { -125 }),
            ),
            (x.iter().enumerate().map(|(i, x)| if i < k { -0.0 } else { *x }).collect(), vec![0.0; n * k]),
            (odd, w.iter().enumerate().map(|(i, w)| if i % k == k / 2 { 0.0 } else { *w }).collect()),
        ]
        .into_iter()
        .enumerate()
        {
            let (found, expected) = (linear(&x, &w, [n, k]), product(&x, &w, [n, k], true));
            let place = found.iter().zip(&expected).position(|(y, e)| y.to_bits() != e.to_bits());
            assert!(
                place.is_none(),
                "{m} {n} {k}, case {number}: element {place:?}: {:?}",
                place.map(|i| (found[i], expected[i]))
            );
        }
    }
}

#[test]
fn what_is_not_finite_stays_in_its_row_and_column() {
    let (m, n, k) = (6, 14, 20);
    let (mut x, mut w) = (numbers(m * k, 1), numbers(n * k, 2));
    for (row, odd) in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].into_iter().enumerate() {
        x[(row + 1) * k + 3] = odd;
    }
    x[5 * k + 2] = 1e-40;
    assert_eq!(bits(&linear(&x, &w, [n, k])), bits(&product(&x, &w, [n, k], true)));
    // Weights of files are finite; a matrix that comes with the batch need not be.
    w[4 * k + 1] = f32::NAN;
    w[7 * k] = f32::INFINITY;
    let operands = [Operand::Floats(Shape::matrix(Dim::Tokens, k), &x), Operand::Floats(Shape::fixed(&[n, k]), &w)];
    let y = run_everywhere(Linear::default(), &operands, Counts::new(m, 1));
    assert_eq!(bits(&y), bits(&product(&x, &w, [n, k], true)));
    assert!(y[4].is_nan() && y[5].is_finite() && y[n..4 * n].iter().all(|y| y.to_bits() == NAN));
}

#[test]
fn bias_activation_and_residual_follow_in_order() {
    let (m, n, k) = (140, 30, 40);
    let (x, w, mut b, mut r) = (numbers(m * k, 1), numbers(n * k, 2), numbers(n, 3), numbers(m * n, 4));
    (b[1], r[2], b[5], r[6]) = (1e-31, -1e-31, f32::NAN, f32::INFINITY);
    let settle = |x: f32| if x.abs() < 2f32.powi(-100) { 0.0 } else { x };
    let plain = product(&x, &w, [n, k], true);
    for (bias, activation, residual) in [
        (true, None, Residual::None),
        (true, Some(ActivationKind::Relu), Residual::Added),
        (false, Some(ActivationKind::Identity), Residual::None),
        (false, None, Residual::Added),
    ] {
        let (shape, narrow) = ([n, k], [n]);
        let mut operands = vec![Operand::Floats(Shape::matrix(Dim::Tokens, k), &x), Operand::Weight(&shape, &w)];
        if bias {
            operands.push(Operand::Floats(Shape::fixed(&narrow), &b));
        }
        if residual == Residual::Added {
            operands.push(Operand::Floats(Shape::matrix(Dim::Tokens, n), &r));
        }
        let y = run_everywhere(Linear { bias, activation, residual }, &operands, Counts::new(m, 1));
        let expected = plain.iter().enumerate().map(|(i, y)| {
            let y = if bias { settle(*y) + settle(b[i % n]) } else { *y };
            let y = if activation == Some(ActivationKind::Relu) && !(y > 0.0 || y.is_nan()) { 0.0 } else { y };
            let y = if residual == Residual::Added { settle(y) + settle(r[i]) } else { y };
            if y.is_nan() { NAN } else { y.to_bits() }
        });
        assert_eq!(bits(&y), expected.collect::<Vec<_>>(), "{bias} {activation:?} {residual:?}");
    }
}

#[test]
fn a_row_has_the_same_bits_in_any_batch_and_whatever_is_set() {
    let (n, k) = (100, 400);
    let (x, w) = (numbers(300 * k, 1), scaled(&numbers(n * k, 2), |i| -((i % k % 3) as i32)));
    let all = linear(&x, &w, [n, k]);
    for (first, rows) in [(0, 1), (299, 1), (3, 2), (100, 7), (5, 130), (40, 255)] {
        let some = linear(&x[first * k..(first + rows) * k], &w, [n, k]);
        assert_eq!(bits(&some), bits(&all[first * n..(first + rows) * n]), "rows {first}.. {rows}");
    }
    assert_eq!(bits(&altered(|| linear(&x, &w, [n, k]))), bits(&all));
}

#[test]
fn errors_are_those_of_float32() {
    for (m, n, k) in [(20, 50, 64), (20, 50, 384), (20, 50, 1536)] {
        let (x, w) = (numbers(m * k, 1), numbers(n * k, 2));
        let sum = |m: usize, n: usize| (0..k).map(|i| f64::from(x[m * k + i]) * f64::from(w[n * k + i])).sum();
        let expected: Vec<f64> = (0..m * n).map(|at| sum(at / n, at % n)).collect();
        let shape = [n, k];
        let operands = [Operand::Floats(Shape::matrix(Dim::Tokens, k), &x), Operand::Weight(&shape, &w)];
        let float = run(Linear::default(), &operands, Counts::new(m, 1), Arch::new());
        let [own, float] = [linear(&x, &w, [n, k]), float].map(|y| errors(&y, &expected));
        assert!((0..2).all(|i| own[i] <= 4.0 * float[i]), "{k}: {own:?} {float:?}");
    }
}

#[test]
fn matrices_that_are_both_inputs_have_no_balance() {
    let (m, n, k) = (7, 18, 35);
    let (a, b) = (numbers(3 * m * k, 1), scaled(&numbers(3 * k * n, 2), |i| -((i % 5 * 9) as i32)));
    for (transpose_a, transpose_b, scale) in [(false, true, 1.0), (false, false, 0.3), (true, false, 1.0)] {
        let op = Matmul { transpose_a, transpose_b, scale, ..Matmul::default() };
        let axes =
            |rows, columns, turned: bool| Shape::fixed(&if turned { [3, columns, rows] } else { [3, rows, columns] });
        let operands = [Operand::Floats(axes(m, k, transpose_a), &a), Operand::Floats(axes(k, n, transpose_b), &b)];
        let y = run_everywhere(op, &operands, Counts::default());
        for batch in 0..3 {
            let (a, b) = (&a[batch * m * k..][..m * k], &b[batch * k * n..][..k * n]);
            let a: Vec<f32> = (0..m * k).map(|at| if transpose_a { a[at % k * m + at / k] } else { a[at] }).collect();
            let b: Vec<f32> = (0..n * k).map(|at| if transpose_b { b[at] } else { b[at % k * n + at / k] }).collect();
            let expected = product(&a, &b, [n, k], false).into_iter().map(|y| if scale == 1.0 { y } else { y * scale });
            assert_eq!(
                bits(&y[batch * m * n..][..m * n]),
                bits(&expected.collect::<Vec<_>>()),
                "{transpose_a} {scale}"
            );
        }
    }
}
