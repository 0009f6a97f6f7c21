//! The kernels beside integers of 128 bits, float64, and themselves: on every instruction set, with any number of threads, in
//! any batch, and whatever the caller has set.

mod attention;
mod elements;
mod experts;
mod products;

use crate::backend::cpu::testing::{Operand, run_everywhere};
use crate::ops::{Counts, Dim, Op, Shape};

/// An op of rows of tokens alone.
fn of_rows(op: impl Into<Op>, columns: usize, x: &[f32]) -> Vec<f32> {
    let operands = [Operand::Floats(Shape::matrix(Dim::Tokens, columns), x)];
    run_everywhere(op, &operands, Counts::new(x.len() / columns, 1))
}

/// The one NaN that results have.
const NAN: u32 = 0x7fc0_0000;

/// Bits of numbers.
fn bits(of: &[f32]) -> Vec<u32> {
    of.iter().map(|x| x.to_bits()).collect()
}

/// The largest error, and the root of the mean of squared errors.
fn errors(found: &[f32], expected: &[f64]) -> [f64; 2] {
    let errors = found.iter().zip(expected).map(|(y, e)| (f64::from(*y) - e).abs());
    let squares = errors.clone().map(|e| e * e).sum::<f64>() / found.len() as f64;
    [errors.fold(0.0, f64::max), squares.sqrt()]
}
