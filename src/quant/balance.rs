//! Factors that divide the error of rounding between the two sides of a product.

use crate::numerics::Numerics;

/// Exponents that are tried, of either side.
const EXPONENTS: [f32; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];
/// Columns that are looked at together.
const BLOCK: usize = 16;
/// What stands for smaller magnitudes.
const LEAST: f32 = 1e-5;

/// Rows of numbers, each rounded to 8-bit integers with a scale of its own.
#[derive(Debug, Clone, Copy)]
pub struct RoundedRows<'a> {
    /// The numbers, row by row.
    pub numbers: &'a [f32],
    /// Whether a row's integers span its range, which includes 0, instead of its largest magnitude on both sides.
    pub affine: bool,
}

impl RoundedRows<'_> {
    /// The largest magnitude of each column.
    fn largest(self, columns: usize) -> Vec<f32> {
        let mut most = vec![LEAST; columns];
        for row in self.numbers.chunks_exact(columns) {
            most.iter_mut().zip(row).for_each(|(most, x)| *most = most.max(x.abs()));
        }
        most
    }

    /// The sum over rows of the squared step between integers, and the sum of the squared numbers, both with columns multiplied
    /// by factors.
    fn squares(self, factors: &[f32]) -> (f64, f64) {
        let (mut steps, mut squares) = (0.0, 0.0);
        for row in self.numbers.chunks_exact(factors.len()) {
            // A block at a time, which the compiler puts into vectors.
            let (mut least, mut most, mut sum) = ([0.0f32; BLOCK], [0.0f32; BLOCK], [0.0f32; BLOCK]);
            for (row, factors) in row.chunks(BLOCK).zip(factors.chunks(BLOCK)) {
                let mut block = [0.0; BLOCK];
                block.iter_mut().zip(row.iter().zip(factors)).for_each(|(block, (x, factor))| *block = x * factor);
                for (i, x) in block.into_iter().enumerate() {
                    least[i] = least[i].min(x);
                    most[i] = most[i].max(x);
                    sum[i] += x * x;
                }
            }
            let (least, most) = (least.into_iter().fold(0.0, f32::min), most.into_iter().fold(0.0, f32::max));
            let sum: f32 = sum.into_iter().sum();
            let step = if self.affine { (most - least) / 255.0 } else { most.max(-least) / 127.0 };
            steps += f64::from(step * step);
            squares += f64::from(sum);
        }
        (steps, squares)
    }
}

/// Factors of the columns of `x [M, columns]`, by which those of `weight [N, columns]` are divided, so that the rounded product
/// is near the exact one; `None` where no factors are better than ones.
///
/// `factors[k] = (max |weight[:, k]|)^b / (max |x[:, k]|)^a` over their geometric mean (Xiao et al. 2023, SmoothQuant, with
/// `b = 1 - a`). Of five exponents on either side those are chosen for which the expected squared error is least: a step `s`
/// between integers adds errors of variance `s^2 / 12` to the numbers of its row, each of which meets all numbers of its column
/// on the other side, `sum_m s_x[m]^2 sum w^2 + sum_n s_w[n]^2 sum x^2` in all.
///
/// Of [`Numerics::Run`] logarithms and powers are the platform's, of [`Numerics::Everywhere`] they have the same bits on each.
///
/// ```
/// use grilly::numerics::Numerics;
/// use grilly::quant::balance::{RoundedRows, balanced};
/// let rows = |numbers| RoundedRows { numbers, affine: false };
/// // The second column of x is large in both rows.
/// let factors = balanced(rows(&[1.0, 64.0, -1.0, 60.0]), rows(&[1.0, 1.0, 1.0, -1.0]), 2, Numerics::Run).unwrap();
/// assert!(factors[0] > 2.0 * factors[1]);
/// assert_eq!(balanced(rows(&[1.0, 1.0]), rows(&[1.0, 1.0]), 2, Numerics::Run), None);
/// ```
#[expect(clippy::disallowed_methods, reason = "of products that have the numbers of their device")]
pub fn balanced(x: RoundedRows<'_>, weight: RoundedRows<'_>, columns: usize, numerics: Numerics) -> Option<Vec<f32>> {
    if columns == 0 {
        return None;
    }
    let [log2, exp2]: [fn(f32) -> f32; 2] = match numerics {
        Numerics::Run => [f32::log2, f32::exp2],
        Numerics::Everywhere => [libm::log2f, libm::exp2f],
    };
    let error = |factors: &[f32]| {
        let inverse: Vec<f32> = factors.iter().map(|factor| 1.0 / factor).collect();
        let ((x_steps, x_squares), (steps, squares)) = (x.squares(factors), weight.squares(&inverse));
        x_steps * squares + steps * x_squares
    };
    let logs = |rows: RoundedRows<'_>| rows.largest(columns).into_iter().map(log2);
    let logs: Vec<(f32, f32)> = logs(x).zip(logs(weight)).collect();
    let (mut found, mut least) = (None, error(&vec![1.0; columns]));
    for (a, b) in EXPONENTS.into_iter().flat_map(|a| EXPONENTS.map(|b| (a, b))).skip(1) {
        let own: Vec<f32> = logs.iter().map(|(x, weight)| b * weight - a * x).collect();
        let mean = own.iter().sum::<f32>() / columns.max(1) as f32;
        let factors: Vec<f32> = own.iter().map(|log| exp2(log - mean)).collect();
        let error = error(&factors);
        // Not with numbers that are not finite.
        if error < least {
            (found, least) = (Some(factors), error);
        }
    }
    found
}

/// The largest expected error of a column of the rounded product, over all rows and relative to the column: that of
/// [`balanced`], `(sum_m s_x[m]^2 sum_k w[n, k]^2 + s_w[n]^2 sum_m,k x[m, k]^2) / 12`, over the sum of the squared terms of its
/// elements.
///
/// ```
/// use grilly::quant::balance::{RoundedRows, relative_error};
/// let rows = |numbers| RoundedRows { numbers, affine: false };
/// let (x, ones) = ([1.0, 0.5, -1.0, 0.25], [1.0; 2]);
/// assert!(relative_error(rows(&x), rows(&[1.0, 0.5]), &ones) < 0.01);
/// // All but nothing is left of the second column of x beside the first.
/// assert!(relative_error(rows(&[1e4, 0.5, -1e4, 0.25]), rows(&[0.0, 1.0]), &ones) > 1.0);
/// ```
#[expect(clippy::disallowed_methods, reason = "of products that have the numbers of their device")]
pub fn relative_error(x: RoundedRows<'_>, weight: RoundedRows<'_>, factors: &[f32]) -> f32 {
    let inverse: Vec<f32> = factors.iter().map(|factor| 1.0 / factor).collect();
    let (steps, squares) = x.squares(factors);
    let mut of_columns = vec![0.0f64; factors.len()];
    for row in x.numbers.chunks_exact(factors.len()) {
        for (sum, (x, factor)) in of_columns.iter_mut().zip(row.iter().zip(factors)) {
            *sum += f64::from(x * factor).powi(2);
        }
    }
    let error = |row: &[f32]| {
        let (step, own) = RoundedRows { numbers: row, ..weight }.squares(&inverse);
        let term = |((w, by), column): ((&f32, &f32), &f64)| f64::from(w * by).powi(2) * column;
        let terms: f64 = row.iter().zip(&inverse).zip(&of_columns).map(term).sum();
        // A column of zeros has no error.
        if terms > 0.0 { ((steps * own + step * squares) / (12.0 * terms)).sqrt() } else { 0.0 }
    };
    weight.numbers.chunks_exact(factors.len().max(1)).map(error).fold(0.0, f64::max) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: usize = 32;

    /// Numbers in -1 .. 1, column by column times `scale`.
    fn numbers(rows: usize, seed: u32, scale: impl Fn(usize) -> f32) -> Vec<f32> {
        let mut state = seed;
        let mut next = |i: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 * scale(i % COLUMNS) - scale(i % COLUMNS)
        };
        (0..rows * COLUMNS).map(&mut next).collect()
    }

    /// What is left of numbers after rounding each row times factors, over the factors.
    fn rounded(rows: RoundedRows<'_>, factors: &[f32]) -> Vec<f64> {
        let row = |row: &[f32]| {
            let own: Vec<f32> = row.iter().zip(factors).map(|(x, factor)| x * factor).collect();
            let (least, most) = own.iter().fold((0.0f32, 0.0f32), |(least, most), x| (least.min(*x), most.max(*x)));
            let step = if rows.affine { (most - least) / 255.0 } else { most.max(-least) / 127.0 };
            own.iter().zip(factors).map(|(x, factor)| f64::from((x / step).round() * step / factor)).collect::<Vec<_>>()
        };
        rows.numbers.chunks(COLUMNS).flat_map(row).collect()
    }

    fn error(x: RoundedRows<'_>, weight: RoundedRows<'_>, factors: &[f32]) -> f64 {
        let product = |x: &[f64], weight: &[f64]| {
            let weight = || weight.chunks(COLUMNS);
            let dot = |row: &[f64], other: &[f64]| row.iter().zip(other).map(|(x, w)| x * w).sum::<f64>();
            x.chunks(COLUMNS).flat_map(|row| weight().map(move |other| dot(row, other))).collect::<Vec<_>>()
        };
        let exact = |rows: RoundedRows<'_>| rows.numbers.iter().map(|x| f64::from(*x)).collect::<Vec<_>>();
        let inverse: Vec<f32> = factors.iter().map(|factor| 1.0 / factor).collect();
        let found = product(&rounded(x, factors), &rounded(weight, &inverse));
        let differences = found.iter().zip(product(&exact(x), &exact(weight))).map(|(found, exact)| found - exact);
        differences.map(|difference| difference * difference).sum()
    }

    #[test]
    fn a_product_with_large_columns_is_nearer_to_the_exact_one() {
        for affine in [false, true] {
            let x = numbers(64, 1, |column| if column == 5 { 60.0 } else { 1.0 });
            let weight = numbers(48, 2, |column| if column == 9 { 4.0 } else { 1.0 });
            let (x, weight) = (RoundedRows { numbers: &x, affine }, RoundedRows { numbers: &weight, affine: false });
            let factors = balanced(x, weight, COLUMNS, Numerics::Run).unwrap();
            let same = balanced(x, weight, COLUMNS, Numerics::Everywhere).unwrap();
            assert!(factors.iter().zip(same).all(|(own, same)| (own - same).abs() <= 1e-6 * own));
            let [plain, found] = [&[1.0; COLUMNS][..], &factors].map(|factors| error(x, weight, factors));
            assert!(found < 0.2 * plain, "affine {affine}: {found} of {plain}");
        }
    }

    #[test]
    fn columns_alike_and_numbers_that_are_not_finite_get_no_factors() {
        let weight = numbers(48, 2, |_| 1.0);
        let rows = |numbers| RoundedRows { numbers, affine: false };
        assert_eq!(balanced(rows(&[]), rows(&[]), 0, Numerics::Run), None);
        let mut x = vec![1.0; COLUMNS];
        x[7] = f32::INFINITY;
        assert_eq!(balanced(rows(&x), rows(&weight), COLUMNS, Numerics::Run), None);
        let x = [f32::NAN; COLUMNS];
        assert_eq!(balanced(rows(&x), rows(&weight), COLUMNS, Numerics::Run), None);
    }
}
