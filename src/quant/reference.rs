//! Quantisers on the host, one number after the other in float64: what converts weights, and what kernels are compared
//! with.

use super::Format;
use crate::{Error, Result};

/// A matrix as integers, and what divides them.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantized {
    /// Integers, row after row.
    pub values: Vec<i8>,
    /// One scale per tensor, row or group: `x = q / scale`.
    pub scales: Vec<f32>,
}

/// Least magnitude of a row's, a group's or a tensor's largest element or mean.
pub const LEAST: f32 = 1e-5;

/// `scale = n / sum |w|` over the whole matrix, `q = clamp(round(w scale), -1, 1)`, ties to even: W1.58 (Ma et al. 2024).
///
/// # Errors
/// `InvalidArgument` for numbers that are not finite.
///
/// ```
/// let found = grilly::quant::reference::ternary(&[0.5, -0.5, 0.125, -0.125]).unwrap();
/// assert_eq!((found.values, found.scales), (vec![1, -1, 0, 0], vec![3.2]));
/// ```
pub fn ternary(weights: &[f32]) -> Result<Quantized> {
    let scale = of_mean(weights)?;
    let values = weights.iter().map(|w| (w * scale).round_ties_even().clamp(-1.0, 1.0) as i8);
    Ok(Quantized { values: values.collect(), scales: vec![scale] })
}

/// `scale = n / sum |w|` over each `group` neighbours of a row, `q = 1` where `w > 0`, else -1. The last group of a row is
/// shorter where `group` does not divide it.
///
/// # Errors
/// `InvalidArgument` for numbers that are not finite, and for a group of no numbers.
///
/// ```
/// let found = grilly::quant::reference::binary(3, 2, &[1.0, -3.0, 4.0]).unwrap();
/// assert_eq!((found.values, found.scales), (vec![1, -1, 1], vec![0.5, 0.25]));
/// ```
pub fn binary(columns: usize, group: usize, weights: &[f32]) -> Result<Quantized> {
    if group == 0 {
        return Err(Error::InvalidArgument("group is 0, expected at least 1".into()));
    }
    let groups = weights.chunks(columns.max(1)).flat_map(|row| row.chunks(group));
    let scales = groups.map(of_mean).collect::<Result<_>>()?;
    Ok(Quantized { values: weights.iter().map(|w| if *w > 0.0 { 1 } else { -1 }).collect(), scales })
}

/// `scale = 127 / max |w|` of each row, `q = round(w scale)`, ties to even.
///
/// # Errors
/// `InvalidArgument` for numbers that are not finite.
///
/// ```
/// let found = grilly::quant::reference::int8(2, &[1.0, -0.5, 0.0, 0.0]).unwrap();
/// assert_eq!((found.values, found.scales), (vec![127, -64, 0, 0], vec![127.0, 127.0 / 1e-5]));
/// ```
pub fn int8(columns: usize, weights: &[f32]) -> Result<Quantized> {
    finite(weights)?;
    let scale = |row: &[f32]| 127.0 / row.iter().fold(LEAST, |most, w| most.max(w.abs()));
    let scales: Vec<f32> = weights.chunks(columns.max(1)).map(scale).collect();
    let value = |(i, w): (usize, &f32)| (w * scales[i / columns]).round_ties_even().clamp(-128.0, 127.0) as i8;
    Ok(Quantized { values: weights.iter().enumerate().map(value).collect(), scales })
}

/// `y[m, n] = sum_k q[m, k] w[n, k]` of a packed matrix `[n, k]`.
///
/// # Errors
/// As [`Format::unpack`], and `InvalidArgument` for a `q` of no whole rows.
pub fn product(q: &[i8], format: Format, [n, k]: [usize; 2], packed: &[u8]) -> Result<Vec<i64>> {
    let weight = format.unpack(n, k, packed)?;
    if k == 0 || !q.len().is_multiple_of(k) {
        return Err(Error::InvalidArgument(format!("q has {} numbers, expected rows of {k}", q.len())));
    }
    let dot = |(q, w): (&[i8], &[i8])| q.iter().zip(w).map(|(q, w)| i64::from(*q) * i64::from(*w)).sum();
    Ok(q.chunks_exact(k).flat_map(|q| weight.chunks_exact(k).map(move |w| dot((q, w)))).collect())
}

/// `n / max(sum |w|, 1e-5 n)`, the sum in float64.
fn of_mean(weights: &[f32]) -> Result<f32> {
    finite(weights)?;
    let count = weights.len().max(1) as f64;
    let sum: f64 = weights.iter().map(|w| f64::from(w.abs())).sum();
    Ok((count / sum.max(f64::from(LEAST) * count)) as f32)
}

fn finite(weights: &[f32]) -> Result<()> {
    match weights.iter().find(|w| !w.is_finite()) {
        None => Ok(()),
        Some(w) => Err(Error::InvalidArgument(format!("a weight is {w}, expected finite numbers"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_have_scales_and_what_is_not_finite_is_refused() {
        let zeros = [0.0; 6];
        assert_eq!(ternary(&zeros).unwrap(), Quantized { values: vec![0; 6], scales: vec![1.0 / LEAST] });
        assert_eq!(int8(3, &zeros).unwrap(), Quantized { values: vec![0; 6], scales: vec![127.0 / LEAST; 2] });
        assert_eq!(binary(3, 2, &zeros).unwrap(), Quantized { values: vec![-1; 6], scales: vec![1.0 / LEAST; 4] });
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let weights = [1.0, wrong];
            for found in [ternary(&weights), int8(2, &weights), binary(2, 2, &weights)] {
                assert!(matches!(found, Err(Error::InvalidArgument(_))), "{wrong}");
            }
        }
        assert!(binary(2, 0, &zeros).is_err());
    }

    #[test]
    fn a_product_is_that_of_the_unpacked_values() {
        let (q, w) = ([3, -128, 127, 1, 2, -1], [1, 0, -1, -1, 1, 1]);
        let packed = Format::Ternary.pack(2, 3, &w).unwrap();
        let expected = [3 - 127, -3 - 128 + 127, 1 + 1, -1 + 2 - 1];
        assert_eq!(product(&q, Format::Ternary, [2, 3], &packed).unwrap(), expected);
        assert!(product(&q[..4], Format::Ternary, [2, 3], &packed).is_err());
    }
}
