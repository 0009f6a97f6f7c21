//! `y = x / max(||x||, eps)` or `x / (||x|| + eps)`

use pulp::{Simd, WithSimd};

use crate::Result;
use crate::backend::cpu::simd::sum_of_squares;
use crate::backend::cpu::step::Step;
use crate::ops::{Floor, Normalize};

struct NormRows<'a> {
    /// `[rows, columns]`, as `out`.
    x: &'a [f32],
    columns: usize,
    eps: f32,
    floor: Floor,
    out: &'a mut [f32],
}

impl WithSimd for NormRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (x, y) in self.x.chunks_exact(self.columns).zip(self.out.chunks_exact_mut(self.columns)) {
            let norm = sum_of_squares(simd, x, 0.0).sqrt();
            // `f32::max` would drop a NaN.
            let divisor = match self.floor {
                Floor::Max if norm < self.eps => self.eps,
                Floor::Max => norm,
                Floor::Add => norm + self.eps,
            };
            for (y, x) in y.iter_mut().zip(x) {
                *y = x / divisor;
            }
        }
    }
}

pub(super) fn normalize(step: &Step<'_>, op: &Normalize, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let columns = step.shape(0).columns();
    step.team.rows(out, columns, 16, |first, part| {
        let x = &x[first * columns..][..part.len()];
        step.arch.dispatch(NormRows { x, columns, eps: op.eps, floor: op.floor, out: part });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::{Operand, archs, assert_close, numbers, run};
    use crate::ops::{Counts, Dim, Shape};

    #[test]
    fn rows_get_length_one_or_stay_below() {
        for arch in archs() {
            for n in [1, 2, 7, 15, 16, 17, 31, 33, 384] {
                let mut x = numbers(6 * n, n as u64);
                x[n..2 * n].fill(0.0);
                x[2 * n] = f32::NAN;
                x[3 * n..4 * n].fill(1e-14 / n as f32);
                let operands = [Operand::Floats(Shape::matrix(Dim::Texts, n), &x)];
                let y = run(Normalize::default(), &operands, Counts::new(0, 6), arch);
                let mut expected = Vec::new();
                for row in x.chunks_exact(n) {
                    let norm = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
                    let divisor = if norm < 1e-12 { 1e-12 } else { norm };
                    expected.extend(row.iter().map(|x| f64::from(*x) / divisor));
                }
                // Half the relative error of the sum, a square root and a division.
                let tolerance =
                    |i: usize| f64::from(f32::EPSILON) * (0.5 * (n as f64).sqrt() + 3.0) * expected[i].abs();
                assert_close(&y, &expected, &format!("{n} columns {arch:?}"), tolerance);
            }
        }
    }
}
