//! The weight of a product as integers in device memory, for results that have the same bits on every device.

use super::kernel::{Range, Resource};
use crate::graph::{Value, ValueId};
use crate::ops::Counts;
use crate::quant::everywhere::{Columns, Side, integers};
use crate::tensor::TensorView;
use crate::{Error, Result};

/// The largest alignment of a binding's offset that a device may have.
const ALIGNMENT: u64 = 256;
/// Elements that are converted at a time, in whole rows.
const PIECE: usize = 1 << 18;

/// A weight of `[n, k]`: `n k` integers, then the exponents of the `n` rows and the balance of the `k` columns, in words.
pub(super) struct Integers {
    n: usize,
    k: usize,
}

impl Integers {
    /// The layout of a value.
    pub(super) fn of(value: &Value) -> Self {
        let k = value.shape.columns();
        Integers { n: value.shape.elements(Counts::default()) / k.max(1), k }
    }

    /// The first byte of the exponents.
    fn exponents(&self) -> u64 {
        (4 * self.n as u64 * self.k as u64).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of all.
    pub(super) fn bytes(&self) -> u64 {
        self.exponents() + 4 * (self.n + self.k) as u64
    }

    /// The integers, and the exponents with the balance.
    pub(super) fn ranges(&self, id: ValueId) -> [Range; 2] {
        let part = |offset, words| Range { resource: Resource::Integers(id), offset, bytes: Some(4 * words as u64) };
        [part(0, self.n * self.k), part(self.exponents(), self.n + self.k)]
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
        let mut columns = Columns::new(self.k);
        each(tensors, &mut numbers, |rows| {
            columns.add(0, rows);
            Ok(())
        })?;
        let balance = columns.balance();
        let (mut found, mut at) = (vec![0; piece], 0);
        let mut exponents = Vec::with_capacity(self.n + self.k);
        each(tensors, &mut numbers, |rows| {
            for (row, found) in rows.chunks_exact(self.k).zip(found.chunks_exact_mut(self.k)) {
                exponents.push(integers(row, &balance, Side::Weight, found));
            }
            write(at, bytemuck::cast_slice(&found[..rows.len()]))?;
            at += 4 * rows.len() as u64;
            Ok(())
        })?;
        if exponents.len() != self.n {
            let reason = format!("{} rows of {} columns, expected {}", exponents.len(), self.k, self.n);
            return Err(Error::InvalidArgument(format!("a weight as integers: {reason}")));
        }
        exponents.extend(balance);
        write(self.exponents(), bytemuck::cast_slice(&exponents))
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
