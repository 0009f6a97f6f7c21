//! The weight of a product as integers in device memory, for results that have the same bits on every device.

use super::kernel::{Range, Resource};
use crate::graph::{Value, ValueId};
use crate::ops::{Counts, Shape};
use crate::quant::everywhere::{Columns, Side, integers};
use crate::tensor::TensorView;
use crate::{Error, Result};

/// The largest alignment of a binding's offset that a device may have.
const ALIGNMENT: u64 = 256;
/// Elements that are converted at a time, in whole rows.
const PIECE: usize = 1 << 18;

/// How a row of integers is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// A word each.
    Words,
    /// Three signed digits to the base 256, the lowest of all first, then the others: bytes, with zeros up to a multiple of
    /// [`Form::STEP`].
    Digits,
}

impl Form {
    /// Terms of which a row of digits has a multiple.
    const STEP: usize = 64;
    /// Digits of an integer.
    pub const DIGITS: usize = 3;

    /// Words of a row of `k` integers.
    pub fn words(self, k: usize) -> usize {
        match self {
            Form::Words => k,
            Form::Digits => Form::DIGITS * k.next_multiple_of(Form::STEP) / 4,
        }
    }

    /// Writes a row.
    fn write(self, row: &[i32], out: &mut [u8]) {
        match self {
            Form::Words => out.copy_from_slice(bytemuck::cast_slice(row)),
            Form::Digits => {
                out.fill(0);
                let places = out.len() / 3;
                for (k, q) in row.iter().enumerate() {
                    // The lowest byte as a signed one, and the rest of the number without it.
                    (0..3).fold(*q, |rest, digit| {
                        out[digit * places + k] = rest as u8;
                        (rest - i32::from(rest as i8)) >> 8
                    });
                }
            }
        }
    }
}

/// Matrices of a weight, and rows and columns of each.
pub(super) fn sizes(weight: &Shape) -> [usize; 3] {
    match weight.sizes(Counts::default())[..] {
        [ref others @ .., n, k] => [others.iter().product(), n, k],
        _ => [1, 1, weight.columns()],
    }
}

/// A weight of matrices `[n, k]`: the rows of integers of all, then of each the exponents of its `n` rows and the balance of its
/// `k` columns, in words.
pub(super) struct Integers {
    matrices: usize,
    n: usize,
    k: usize,
    form: Form,
}

impl Integers {
    /// The layout of a value.
    pub(super) fn of(value: &Value, form: Form) -> Self {
        let [matrices, n, k] = sizes(&value.shape);
        Integers { matrices, n, k, form }
    }

    /// Words of the rows.
    fn words(&self) -> usize {
        self.matrices * self.n * self.form.words(self.k)
    }

    /// Words of the exponents and balances.
    fn others(&self) -> usize {
        self.matrices * (self.n + self.k)
    }

    /// The first byte of the exponents.
    fn exponents(&self) -> u64 {
        (4 * self.words() as u64).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> u64 {
        self.exponents() + 4 * self.others() as u64
    }

    /// The integers, and the exponents with the balance.
    pub(super) fn ranges(&self, id: ValueId) -> [Range; 2] {
        let resource = Resource::Integers(id, self.form);
        let part = |offset, words| Range { resource, offset, bytes: Some(4 * words as u64) };
        [part(0, self.words()), part(self.exponents(), self.others())]
    }

    /// Converts the tensors of which the weight is stacked, and passes bytes to `write` with their places.
    ///
    /// # Errors
    /// `NotFinite` naming a tensor, `InvalidArgument` for one without whole rows, or the error of `write`.
    pub(super) fn write(
        &self,
        tensors: &[TensorView<'_>],
        mut write: impl FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let piece = (PIECE / self.k.max(1)).max(1) * self.k;
        let mut numbers = vec![0.0; piece];
        // Rows without columns are not read.
        let expected = if self.k == 0 { 0 } else { self.matrices * self.n };
        let mut columns = vec![Columns::new(self.k); self.matrices];
        let mut count = 0;
        each(tensors, &mut numbers, |rows| {
            for row in rows.chunks_exact(self.k) {
                if count < expected {
                    columns[count / self.n].add(0, row);
                }
                count += 1;
            }
            Ok(())
        })?;
        if count != expected {
            let reason = format!("{count} rows of {} columns, expected {expected}", self.k);
            return Err(Error::InvalidArgument(format!("a weight as integers: {reason}")));
        }
        let balances: Vec<Vec<i32>> = columns.iter().map(Columns::balance).collect();
        let row_bytes = 4 * self.form.words(self.k);
        let (mut found, mut at) = (vec![0; self.k], 0);
        let mut bytes = vec![0; piece / self.k.max(1) * row_bytes];
        let mut others = Vec::with_capacity(self.others());
        let mut row_number = 0;
        each(tensors, &mut numbers, |rows| {
            for (row, out) in rows.chunks_exact(self.k).zip(bytes.chunks_exact_mut(row_bytes)) {
                let balance = &balances[row_number / self.n];
                others.push(integers(row, balance, Side::Weight, &mut found));
                self.form.write(&found, out);
                row_number += 1;
                if row_number.is_multiple_of(self.n) {
                    others.extend(balance);
                }
            }
            let written = &bytes[..rows.len() / self.k.max(1) * row_bytes];
            write(at, written)?;
            at += written.len() as u64;
            Ok(())
        })?;
        // Of a weight without elements nothing is read.
        others.resize(self.others(), 0);
        write(self.exponents(), bytemuck::cast_slice(&others))
    }
}

/// Reads tensors in pieces of whole rows.
fn each(tensors: &[TensorView<'_>], numbers: &mut [f32], mut with: impl FnMut(&[f32]) -> Result<()>) -> Result<()> {
    for tensor in tensors {
        for first in (0..tensor.elements()).step_by(numbers.len().max(1)) {
            let count = numbers.len().min(tensor.elements() - first);
            tensor.read_f32(first, &mut numbers[..count])?;
            with(&numbers[..count])?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_signed_bytes_are_the_number() {
        let row = [0, 1, -1, 127, 128, -128, -129, 32_639, 32_640, -32_896, -32_897, 8_355_711, -8_355_711];
        let mut bytes = vec![1; 4 * Form::Digits.words(row.len())];
        Form::Digits.write(&row, &mut bytes);
        assert_eq!(bytes.len(), 3 * 64);
        let digit = |digit: usize, k: usize| i32::from(bytes[64 * digit + k] as i8);
        for k in 0..64 {
            let found = digit(0, k) + 256 * digit(1, k) + 65_536 * digit(2, k);
            assert_eq!(found, row.get(k).copied().unwrap_or(0));
        }
    }
}
