//! `y = (x - mean) / sqrt(var + eps) * weight + bias` and its gradient, in two passes over a row that stays in the
//! first-level cache.

use pulp::{Simd, WithSimd};

use super::Memory;
use crate::backend::cpu::simd::{Arch, sum, sum_by, sum_of_squares};
use crate::backend::cpu::step::Step;
use crate::ops::{LayerNorm, LayerNormBackward, LayerNormWeightBackward};
use crate::{Error, Result};

struct NormRows<'a> {
    /// `[rows, columns]`, as `out`.
    x: &'a [f32],
    weight: &'a [f32],
    bias: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl WithSimd for NormRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let columns = self.weight.len();
        let (weight, weight_rest) = S::as_simd_f32s(self.weight);
        let (bias, bias_rest) = S::as_simd_f32s(self.bias);
        for (x, y) in self.x.chunks_exact(columns).zip(self.out.chunks_exact_mut(columns)) {
            let mean = sum(simd, x) / columns as f32;
            let variance = sum_of_squares(simd, x, mean) / columns as f32;
            let factor = 1.0 / (variance + self.eps).sqrt();
            let (center, scale) = (simd.splat_f32s(mean), simd.splat_f32s(factor));
            let (x, x_rest) = S::as_simd_f32s(x);
            let (y, y_rest) = S::as_mut_simd_f32s(y);
            for (((y, x), w), b) in y.iter_mut().zip(x).zip(weight).zip(bias) {
                let normal = simd.mul_f32s(simd.sub_f32s(*x, center), scale);
                *y = simd.mul_add_f32s(normal, *w, *b);
            }
            for (((y, x), w), b) in y_rest.iter_mut().zip(x_rest).zip(weight_rest).zip(bias_rest) {
                *y = (x - mean) * factor * w + b;
            }
        }
    }
}

pub(super) fn layer_norm(step: &Step<'_>, op: &LayerNorm, out: &mut [f32]) -> Result<()> {
    let (x, weight, bias) = (step.floats(0)?, step.floats(1)?, step.floats(2)?);
    let columns = weight.len();
    step.team.rows(out, columns, 16, |first, part| {
        normalize(step.arch, op, &x[first * columns..][..part.len()], (weight, bias), part);
    });
    Ok(())
}

/// Normalises rows of `x`, as many as `out` has, with weight and bias.
pub(super) fn normalize(arch: Arch, op: &LayerNorm, x: &[f32], (weight, bias): (&[f32], &[f32]), out: &mut [f32]) {
    arch.dispatch(NormRows { x, weight, bias, eps: op.eps, out });
}

pub(super) fn layer_norm_backward(step: &Step<'_>, op: &LayerNormBackward, out: &mut [f32]) -> Result<()> {
    let (g, x, weight) = (step.floats(0)?, step.floats(1)?, step.floats(2)?);
    let columns = weight.len();
    let n = columns as f32;
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        let [g, x] = [g, x].map(|of| &of[row * columns..][..columns]);
        let mean = sum_by([x], |[x]| x) / n;
        let mean_h = sum_by([g, weight], |[g, w]| g * w) / n;
        let variance = sum_by([x], |[x]| (x - mean) * (x - mean)) / n;
        let product = sum_by([g, x, weight], |[g, x, w]| g * w * (x - mean)) / n;
        let scale = 1.0 / (variance + op.0.eps).sqrt();
        let slope = product * scale * scale;
        for (((y, g), x), w) in y.iter_mut().zip(g).zip(x).zip(weight) {
            *y = (g * w - mean_h - (x - mean) * slope) * scale;
        }
    }));
    Ok(())
}

pub(super) fn layer_norm_weight_backward(
    step: &Step<'_>,
    op: &LayerNormWeightBackward,
    memory: Memory<'_, '_>,
) -> Result<()> {
    let (g, x) = (step.floats(0)?, step.floats(1)?);
    let Memory { results: [by_weight, by_bias], scratch } = memory else {
        return Err(Error::InvalidArgument("layer_norm_weight_backward: expected two results".into()));
    };
    let columns = by_weight.len();
    let block = LayerNormWeightBackward::ROWS * columns;
    scratch.resize(2 * columns * x.len().div_ceil(block), "sums of blocks of rows")?;
    step.rows(scratch, 2 * columns, 1).each(inlined!(|number, sums| {
        let [g, x] = [g, x].map(|of| of[number * block..].chunks_exact(columns).take(LayerNormWeightBackward::ROWS));
        sums.fill(0.0);
        let (by_weight, by_bias) = sums.split_at_mut(columns);
        for (g, x) in g.zip(x) {
            let mean = sum_by([x], |[x]| x) / columns as f32;
            let variance = sum_by([x], |[x]| (x - mean) * (x - mean)) / columns as f32;
            let scale = 1.0 / (variance + op.0.eps).sqrt();
            for (((w, b), g), x) in by_weight.iter_mut().zip(by_bias.iter_mut()).zip(g).zip(x) {
                *w += g * ((x - mean) * scale);
                *b += g;
            }
        }
    }));
    for (place, sum) in [by_weight, by_bias].into_iter().enumerate() {
        sum.fill(0.0);
        for part in scratch.chunks_exact(2 * columns) {
            sum.iter_mut().zip(&part[place * columns..]).for_each(|(sum, part)| *sum += part);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::{Operand, archs, assert_close, numbers, run, same_bits};
    use crate::ops::{Counts, Dim, Shape};

    fn reference(x: &[f32], weight: &[f32], bias: &[f32], eps: f64) -> Vec<f64> {
        let n = weight.len();
        let mut y = Vec::new();
        for row in x.chunks_exact(n) {
            let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64;
            let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n as f64;
            for ((x, w), b) in row.iter().zip(weight).zip(bias) {
                y.push((f64::from(*x) - mean) / (variance + eps).sqrt() * f64::from(*w) + f64::from(*b));
            }
        }
        y
    }

    fn layer_norm(x: &[f32], n: usize, arch: simd::Arch) -> (Vec<f32>, Vec<f64>) {
        let (weight, bias) = (numbers(n, 2), numbers(n, 3));
        let counts = Counts::new(x.len() / n, 1);
        let operands = [
            Operand::Floats(Shape::matrix(Dim::Tokens, n), x),
            Operand::Weight(&[n], &weight),
            Operand::Weight(&[n], &bias),
        ];
        (run(LayerNorm { eps: 1e-12 }, &operands, counts, arch), reference(x, &weight, &bias, 1e-12))
    }

    use crate::backend::cpu::simd;

    #[test]
    fn rows_of_every_width_match_float64() {
        for arch in archs() {
            for n in [1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 384, 385, 1000] {
                for rows in [0, 1, 3, 40] {
                    let mut x = numbers(rows * n, n as u64);
                    if let Some(outlier) = x.get_mut(n / 2) {
                        *outlier = 300.0;
                    }
                    let (y, expected) = layer_norm(&x, n, arch);
                    // The error of the mean is less than n / lanes + 5 roundings of the largest element, in units of
                    // the deviation; the factor has the same relative error.
                    let tolerance = |i: usize| {
                        let row = &x[i / n * n..][..n];
                        let most = row.iter().fold(0f64, |m, x| m.max(f64::from(x.abs())));
                        let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / n as f64;
                        let deviation =
                            (row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n as f64 + 1e-12).sqrt();
                        let terms = (n as f64).sqrt() + 5.0;
                        f64::from(f32::EPSILON) * 2.0 * (terms * (most / deviation + 1.0) + expected[i].abs() * terms)
                    };
                    assert_close(&y, &expected, &format!("{rows} x {n} {arch:?}"), tolerance);
                }
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_anywhere_and_nan_stays_in_its_row() {
        for arch in archs() {
            let n = 100;
            let mut x = numbers(50 * n, 9);
            let (all, _) = layer_norm(&x, n, arch);
            let (one, _) = layer_norm(&x[17 * n..18 * n], n, arch);
            assert!(same_bits(&one, &all[17 * n..18 * n]));
            x[20 * n + 3] = f32::NAN;
            x[21 * n] = f32::INFINITY;
            let (with_nan, _) = layer_norm(&x, n, arch);
            assert!(with_nan[20 * n..22 * n].iter().all(|y| y.is_nan()));
            assert!(same_bits(&with_nan[..20 * n], &all[..20 * n]) && same_bits(&with_nan[22 * n..], &all[22 * n..]));
        }
    }
}
