//! `y = act(x W^T + b) + residual`

use std::borrow::Cow;

use crate::backend::cpu::matmul::{Packed, multiply};
use crate::backend::cpu::simd::Finish;
use crate::backend::cpu::step::Step;
use crate::ops::{Linear, Residual};
use crate::{Error, Result};

pub(super) fn linear(step: &Step<'_>, op: &Linear, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let mut own = Vec::new();
    let weight = packed(step, 1, &mut own)?;
    let bias = biases(step, op.bias.then_some(2), weight.padded_columns())?;
    let residual = (op.residual == Residual::Added).then(|| step.floats(step.operands.len() - 1)).transpose()?;
    let finish = Finish { bias: &bias, activation: op.activation, residual };
    multiply(step.arch, step.team, x, weight, finish, out)
}

/// The biases at a place, followed by as many zeros as a product may read past the last; empty for none.
pub(super) fn biases<'a>(step: &Step<'a>, place: Option<usize>, padded: usize) -> Result<Cow<'a, [f32]>> {
    let Some(place) = place else { return Ok(Cow::Borrowed(&[])) };
    if let Some(biases) = step.constants.floats(step.operands[place]) {
        return Ok(Cow::Borrowed(biases));
    }
    let mut biases = step.floats(place)?.to_vec();
    biases.resize(biases.len() + padded, 0.0);
    Ok(Cow::Owned(biases))
}

/// A weight in panels; a weight that is an input of the batch is packed for this batch, into `own`.
pub(super) fn packed<'a>(step: &Step<'a>, weight: usize, own: &'a mut Vec<Packed>) -> Result<&'a Packed> {
    Ok(&matrices(step, weight, own)?[0])
}

/// The matrices of a weight, as [`packed`] for each.
pub(super) fn matrices<'a>(step: &Step<'a>, weight: usize, own: &'a mut Vec<Packed>) -> Result<&'a [Packed]> {
    if let Some(packed) = step.constants.packed(step.operands[weight]) {
        return Ok(packed);
    }
    let (sizes, values) = (step.shape(weight).sizes(step.counts), step.floats(weight)?);
    let [others @ .., rows, depth] = &sizes[..] else {
        return Err(Error::InvalidArgument(format!("a weight has shape {sizes:?}, expected a matrix")));
    };
    for matrix in 0..others.iter().product() {
        own.push(Packed::new(step.arch, *rows, *depth, |n, row| {
            row.copy_from_slice(&values[(matrix * rows + n) * depth..][..*depth]);
            Ok(())
        })?);
    }
    Ok(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::simd::Arch;
    use crate::backend::cpu::testing::{Operand, archs, assert_close, numbers, run, same_bits};
    use crate::ops::{ActivationKind, Counts, Dim, Residual, Shape};

    struct Case {
        n: usize,
        k: usize,
        w: Vec<f32>,
        b: Vec<f32>,
        op: Linear,
    }

    impl Case {
        fn new(n: usize, k: usize, op: Linear) -> Self {
            Case { n, k, w: numbers(n * k, 2), b: numbers(n, 3), op }
        }

        fn run(&self, x: &[f32], residual: &[f32], arch: Arch) -> Vec<f32> {
            let tokens = residual.len() / self.n;
            let shape = [self.n, self.k];
            let mut operands =
                vec![Operand::Floats(Shape::matrix(Dim::Tokens, self.k), x), Operand::Weight(&shape, &self.w)];
            if self.op.bias {
                operands.push(Operand::Weight(&shape[..1], &self.b));
            }
            if self.op.residual == Residual::Added {
                operands.push(Operand::Floats(Shape::matrix(Dim::Tokens, self.n), residual));
            }
            run(self.op.clone(), &operands, Counts::new(tokens, 1), arch)
        }

        fn check(&self, tokens: usize, arch: Arch) {
            let (x, residual) = (numbers(tokens * self.k, 1), numbers(tokens * self.n, 4));
            let y = self.run(&x, &residual, arch);
            let (mut expected, mut scale) = (Vec::new(), Vec::new());
            for m in 0..tokens {
                for n in 0..self.n {
                    let terms =
                        || (0..self.k).map(|k| f64::from(x[m * self.k + k]) * f64::from(self.w[n * self.k + k]));
                    let mut sum = terms().sum::<f64>();
                    let mut size = terms().map(|t| t * t).sum::<f64>().sqrt();
                    if self.op.bias {
                        sum += f64::from(self.b[n]);
                    }
                    match self.op.activation {
                        Some(ActivationKind::Relu) => sum = sum.max(0.0),
                        Some(_) => sum = sum.tanh(),
                        None => {}
                    }
                    if self.op.residual == Residual::Added {
                        sum += f64::from(residual[m * self.n + n]);
                    }
                    size += sum.abs() + 1.0;
                    expected.push(sum);
                    scale.push(size);
                }
            }
            // Partial sums are as large as the root of the terms' sum of squares, and k of them are rounded.
            let what = format!("[{tokens}, {}] x [{}, {}] {arch:?}", self.k, self.n, self.k);
            let roundings = 2.0 + (self.k as f64).sqrt();
            assert_close(&y, &expected, &what, |i| f64::from(f32::EPSILON) * roundings * scale[i]);
        }
    }

    #[test]
    fn products_around_the_tiles_match_float64() {
        for arch in archs() {
            for (n, k) in [
                (1, 1),
                (2, 3),
                (15, 16),
                (16, 17),
                (17, 31),
                (33, 1),
                (47, 7),
                (48, 33),
                (49, 2),
                (97, 383),
                (10, 385),
                (50, 800),
            ] {
                let case = Case::new(n, k, Linear { bias: true, ..Linear::default() });
                for tokens in [0, 1, 2, 7, 8, 9, 15, 17, 31, 33] {
                    case.check(tokens, arch);
                }
            }
            Case::new(30, 20, Linear { bias: true, ..Linear::default() }).check(513, arch);
        }
    }

    #[test]
    fn bias_activation_and_residual_in_every_combination() {
        for arch in archs() {
            for bias in [false, true] {
                for activation in [None, Some(ActivationKind::Relu), Some(ActivationKind::Tanh)] {
                    for residual in [Residual::None, Residual::Added] {
                        let case = Case::new(53, 40, Linear { bias, activation, residual });
                        case.check(9, arch);
                        case.check(200, arch);
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_in_any_batch() {
        for arch in archs() {
            let op = Linear { bias: true, activation: Some(ActivationKind::GeluErf), residual: Residual::Added };
            let case = Case::new(100, 400, op);
            let (x, residual) = (numbers(300 * 400, 1), numbers(300 * 100, 2));
            let all = case.run(&x, &residual, arch);
            for (first, rows) in [(0, 1), (299, 1), (3, 2), (100, 7), (5, 130), (40, 255)] {
                let some =
                    case.run(&x[first * 400..(first + rows) * 400], &residual[first * 100..(first + rows) * 100], arch);
                assert!(same_bits(&some, &all[first * 100..(first + rows) * 100]), "rows {first}.. {rows} {arch:?}");
            }
        }
    }

    #[test]
    fn nan_and_infinity_stay_in_their_row() {
        for arch in archs() {
            let case = Case::new(50, 40, Linear::default());
            let (mut x, residual) = (numbers(20 * 40, 1), vec![0.0; 20 * 50]);
            let clean = case.run(&x, &residual, arch);
            x[40 * 5 + 3] = f32::NAN;
            x[40 * 6 + 3] = f32::INFINITY;
            let y = case.run(&x, &residual, arch);
            assert!(y[5 * 50..6 * 50].iter().all(|y| y.is_nan()));
            assert!(y[6 * 50..7 * 50].iter().all(|y| y.is_infinite()));
            assert!(same_bits(&y[..250], &clean[..250]) && same_bits(&y[350..], &clean[350..]));
        }
    }

    /// Numbers that cannot be split for the tile registers are multiplied directly.
    #[test]
    fn extreme_numbers_behave_as_floats() {
        for arch in archs() {
            let mut case = Case::new(40, 33, Linear::default());
            let (mut x, residual) = (numbers(3 * 33, 1), vec![0.0; 3 * 40]);
            x[..33].fill(0.0);
            x[7] = f32::MAX;
            x[33..66].fill(0.0);
            x[40] = -f32::INFINITY;
            case.w[7] = 0.5;
            case.w[33 + 7] = 2.0;
            let y = case.run(&x, &residual, arch);
            assert_eq!((y[0], y[1]), (f32::MAX / 2.0, f32::INFINITY), "{arch:?}");
            assert_eq!((y[40], y[41]), (f32::NEG_INFINITY, f32::NEG_INFINITY), "{arch:?}");
            case.w[33 + 8] = f32::INFINITY;
            // Weights of files are finite; a matrix that comes with the batch need not be.
            let operands = [
                Operand::Floats(Shape::matrix(Dim::Tokens, 33), &x),
                Operand::Floats(Shape::fixed(&[40, 33]), &case.w),
            ];
            let y = run(case.op.clone(), &operands, Counts::new(3, 1), arch);
            assert!(y[0] == f32::MAX / 2.0 && y[1].is_nan() && y[81].is_infinite(), "{arch:?}: {:?}", &y[..2]);
        }
    }

    #[test]
    fn a_matrix_that_comes_with_the_batch_gives_the_same_bits() {
        let case = Case::new(50, 40, Linear { bias: true, ..Linear::default() });
        let x = numbers(20 * 40, 1);
        let packed = case.run(&x, &vec![0.0; 20 * 50], Arch::new());
        let operands = [
            Operand::Floats(Shape::matrix(Dim::Tokens, 40), &x),
            Operand::Floats(Shape::fixed(&[50, 40]), &case.w),
            Operand::Floats(Shape::fixed(&[50]), &case.b),
        ];
        let given = run(case.op.clone(), &operands, Counts::new(20, 1), Arch::new());
        assert!(same_bits(&packed, &given));
    }
}
