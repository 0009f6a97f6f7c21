//! Reading of elements, which is refused where one is NaN or infinite.

use std::ops::Range;

use super::{Places, RowsAs, TensorView};
use crate::Result;
use crate::dtype::DType;

/// Elements that are converted, and seen to be finite, while they are in the first cache.
const BLOCK: usize = 1 << 12;

impl TensorView<'_> {
    /// Whether the elements are those of the file, unchanged, in this type.
    fn is_stored_as(&self, dtype: DType) -> bool {
        dtype.is_float()
            && self.stored == dtype
            && [DType::F32, dtype].contains(&self.rounded)
            && self.added.is_none()
            && self.changes.is_empty()
            && self.columns_by.is_empty()
            && matches!(self.rows_as, RowsAs::Numbers)
    }

    /// Reads elements from `first` on as `dtype`, as many as fit in `out`.
    ///
    /// # Errors
    /// As [`TensorView::pass`].
    pub fn read(&self, first: usize, dtype: DType, out: &mut [u8]) -> Result<()> {
        if let RowsAs::Packed(levels, values) = &self.rows_as {
            return values.pack(*levels, first, out);
        }
        let (count, mut at) = (out.len() * 8 / dtype.bits(), 0);
        self.pass(first..first + count, dtype, |bytes| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        })
    }

    /// Passes a range of the elements as `dtype` to `write`, in order, in blocks that the first cache holds: the destination
    /// may be memory that is only written.
    ///
    /// # Errors
    /// `NotFinite` naming tensor and place, for elements that are NaN or infinite, or become so in `dtype`.
    pub fn pass(&self, elements: Range<usize>, dtype: DType, mut write: impl FnMut(&[u8])) -> Result<()> {
        let start = self.contiguous().filter(|_| self.is_stored_as(dtype));
        let (mut numbers, mut block) = ([0.0; BLOCK], [0; 2 * BLOCK]);
        for first in elements.clone().step_by(BLOCK) {
            let count = BLOCK.min(elements.end - first);
            let (numbers, size) = (&mut numbers[..count], dtype.bytes(count));
            let (bytes, finite) = match (start, &self.rows_as) {
                (Some(start), _) => {
                    let bytes = &self.bytes[dtype.bytes(start + first)..][..size];
                    (bytes, dtype.is_finite(bytes))
                }
                (None, RowsAs::Packed(levels, values)) => {
                    values.pack(*levels, first, &mut block[..size])?;
                    (&block[..size], true)
                }
                (None, _) => {
                    self.read_f32(first, numbers)?;
                    match dtype {
                        DType::F32 => (bytemuck::cast_slice(numbers), true),
                        _ => {
                            let finite = dtype.encode(numbers, &mut block[..size]);
                            (&block[..size], finite)
                        }
                    }
                }
            };
            if !finite {
                return Err(self.not_finite(first..first + count, dtype));
            }
            write(bytes);
        }
        Ok(())
    }

    /// Reads elements `first..first + out.len()` as f32.
    ///
    /// # Errors
    /// `NotFinite` naming tensor and place, for elements that are NaN or infinite, or become so.
    pub fn read_f32(&self, first: usize, out: &mut [f32]) -> Result<()> {
        let blocks = out.chunks_mut(BLOCK).zip((first..).step_by(BLOCK));
        blocks.into_iter().try_for_each(|(out, first)| match self.read_block(first, out)? {
            true => Ok(()),
            false => Err(self.not_finite(first..first + out.len(), DType::F32)),
        })
    }

    /// Reads elements `first..first + out.len()` as f32; returns whether all are finite, before integers take their place.
    ///
    /// # Errors
    /// `NotFinite` of a factor of what is added.
    pub(super) fn read_block(&self, first: usize, out: &mut [f32]) -> Result<bool> {
        self.read_stored(first, out)?;
        // What is stored in the type needs no rounding to it.
        if self.stored != self.rounded || self.added.is_some() {
            self.rounded.round(out);
        }
        let mut finite = DType::F32.is_finite(bytemuck::cast_slice(out));
        for change in &self.changes {
            out.iter_mut().for_each(|value| *value = change.of(*value));
        }
        let width = self.columns.len();
        if !self.columns_by.is_empty() {
            for (value, at) in out.iter_mut().zip(first..) {
                *value *= f32::from_bits(self.columns_by[at % width]);
            }
        }
        if !(self.changes.is_empty() && self.columns_by.is_empty()) {
            finite &= DType::F32.is_finite(bytemuck::cast_slice(out));
        }
        if let RowsAs::Integers(scales) = &self.rows_as {
            for (value, at) in out.iter_mut().zip(first..) {
                *value = (*value * scales[at / width]).round_ties_even().clamp(-128.0, 127.0);
            }
        }
        Ok(finite)
    }

    /// Reads the stored elements, with what is added to them.
    ///
    /// # Errors
    /// `NotFinite` of a factor of what is added.
    pub(super) fn read_stored(&self, first: usize, out: &mut [f32]) -> Result<()> {
        let stored = self.stored;
        let decode = |start: usize, step: usize, out: &mut [f32]| {
            if stored == DType::U8 {
                self.decode_codes(start, step, out);
                return Ok(());
            }
            let bytes = &self.bytes[stored.bytes(start)..];
            match step {
                1 => stored.decode_into(&bytes[..stored.bytes(out.len())], out),
                _ => stored.decode_apart(bytes, step, out),
            }
            match (&self.added, step) {
                (None, _) => Ok(()),
                (Some(factors), 1) => factors.add(start, out),
                (Some(factors), _) => {
                    let mut places = out.iter_mut().zip((start..).step_by(step));
                    places.try_for_each(|(value, at)| factors.add(at, std::slice::from_mut(value)))
                }
            }
        };
        let width = self.columns.len();
        match (self.contiguous(), &self.columns) {
            (Some(start), _) => decode(start + first, 1, out),
            // A row, or a part of one, at a time.
            (None, Places::Even { first: start, step, .. }) => {
                let mut rest = &mut *out;
                let mut at = first;
                while !rest.is_empty() {
                    let (row, column) = (at / width, at % width);
                    let (part, others) = rest.split_at_mut((width - column).min(rest.len()));
                    decode(self.rows.at(row) + start + column * step, *step, part)?;
                    at += part.len();
                    rest = others;
                }
                Ok(())
            }
            _ => out.iter_mut().enumerate().try_for_each(|(i, value)| {
                let at = self.rows.at((first + i) / width) + self.columns.at((first + i) % width);
                decode(at, 1, std::slice::from_mut(value))
            }),
        }
    }
}
