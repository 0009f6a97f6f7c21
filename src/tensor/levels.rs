//! Values of one or two bits: stored ones as numbers, numbers as such values, and their bytes for kernels.

use std::sync::Arc;

use super::{Places, RowsAs, TensorView};
use crate::Result;
use crate::dtype::DType;
use crate::ops::Levels;
use crate::quant::reference::LEAST;

/// Ternary values per stored byte.
const STORED: usize = 4;

/// The nearest value, ties to even; of signs -1 for 0 and for what is not a number.
#[inline(always)]
pub(super) fn nearest(levels: Levels, x: f32) -> f32 {
    match levels {
        Levels::Binary if x > 0.0 => 1.0,
        Levels::Binary => -1.0,
        Levels::Ternary => x.round_ties_even().clamp(-1.0, 1.0),
        Levels::Int8 => x.round_ties_even().clamp(-128.0, 127.0),
    }
}

impl<'a> TensorView<'a> {
    /// A column of numbers.
    pub(super) fn numbers(numbers: &[f32]) -> Self {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        TensorView::new(DType::F32, DType::F32, &[numbers.len(), 1], bytes)
    }

    /// Elements of a stored byte.
    pub(super) fn per_byte(&self) -> usize {
        if self.stored == DType::U8 { STORED } else { 1 }
    }

    /// The whole stored tensor, of whose bytes each has a column of four rows, a quarter of the rows apart.
    pub(super) fn unpacked(self) -> Self {
        let (rows, width) = (STORED * self.rows.len(), self.columns.len());
        TensorView { rows: Places::Even { first: 0, step: width, count: rows }, rounded: DType::F32, ..self }
    }

    /// Values `start`, `start + step`, ... of the unpacked tensor.
    pub(super) fn decode_codes(&self, start: usize, step: usize, out: &mut [f32]) {
        let quarter = self.bytes.len().max(1);
        let value = |byte: u8, part: usize| f32::from(byte >> (2 * part) & 3) - 1.0;
        if step != 1 {
            let places = (start..).step_by(step);
            let each = out.iter_mut().zip(places);
            return each.for_each(|(x, at)| *x = value(self.bytes[at % quarter], at / quarter));
        }
        let (mut at, mut rest) = (start, out);
        while !rest.is_empty() {
            let (part, byte) = (at / quarter, at % quarter);
            let (run, others) = rest.split_at_mut(rest.len().min(quarter - byte));
            run.iter_mut().zip(&self.bytes[byte..]).for_each(|(x, byte)| *x = value(*byte, part));
            (at, rest) = (at + run.len(), others);
        }
    }

    /// `n / max(sum |x|, 1e-5 n)`: of ternary values over all elements, of signs over each row. Sums are in float64.
    ///
    /// # Errors
    /// As [`TensorView::read_f32`].
    pub(super) fn divisors(&self, levels: Levels) -> Result<Vec<f32>> {
        let mut row = vec![0.0; self.columns.len()];
        let sums = (0..self.rows.len()).map(|number| {
            self.read_f32(number * row.len(), &mut row)?;
            Ok(row.iter().map(|x| f64::from(x.abs())).sum::<f64>())
        });
        let sums = sums.collect::<Result<Vec<_>>>()?;
        let divisor = |sum: f64, count: usize| {
            let count = count.max(1) as f64;
            (count / sum.max(f64::from(LEAST) * count)) as f32
        };
        Ok(match levels {
            Levels::Ternary => vec![divisor(sums.iter().sum(), self.elements())],
            _ => sums.into_iter().map(|sum| divisor(sum, row.len())).collect(),
        })
    }

    /// The bytes of the values that the elements are.
    pub(super) fn packed(self, levels: Levels) -> Self {
        let (rows, width) = (self.rows.len(), levels.bytes(self.columns.len()));
        let places = |step, count| Places::Even { first: 0, step, count };
        TensorView {
            rows: places(width, rows),
            columns: places(1, width),
            rows_as: RowsAs::Packed(levels, Arc::new(self.clone())),
            ..self
        }
    }

    /// Bytes of the packed rows from `first` on.
    ///
    /// # Errors
    /// As [`TensorView::read_f32`].
    pub(super) fn pack(&self, levels: Levels, first: usize, out: &mut [u8]) -> Result<()> {
        let (each, width) = (levels.per_byte(), self.columns.len());
        let row_bytes = levels.bytes(width);
        let mut values = vec![0.0; width];
        let (mut at, mut rest) = (first, out);
        while !rest.is_empty() {
            let (row, byte) = (at / row_bytes, at % row_bytes);
            let (part, others) = rest.split_at_mut(rest.len().min(row_bytes - byte));
            let start = byte * each;
            let values = &mut values[..(part.len() * each).min(width - start)];
            self.read_f32(row * width + start, values)?;
            for (packed, values) in part.iter_mut().zip(values.chunks(each)) {
                let code = |x: f32| match levels {
                    Levels::Int8 => (x as i8).cast_unsigned(),
                    Levels::Ternary => (x + 1.0) as u8,
                    Levels::Binary => u8::from(x > 0.0),
                };
                let bits = 8 / each;
                *packed = values.iter().enumerate().fold(0, |byte, (i, x)| byte | code(*x) << (bits * i));
            }
            (at, rest) = (at + part.len(), others);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::format::Applied;
    use crate::quant::{Format, reference};
    use crate::tensor::Recipe;

    fn bytes(view: &TensorView<'_>) -> Vec<u8> {
        let mut whole = vec![0; view.elements()];
        view.read(0, DType::U8, &mut whole).unwrap();
        for first in 0..view.elements() {
            let mut part = vec![0; (view.elements() - first).min(3)];
            view.read(first, DType::U8, &mut part).unwrap();
            assert_eq!(part, whole[first..][..part.len()]);
        }
        whole
    }

    fn after<'a>(view: TensorView<'a>, recipe: &[Recipe]) -> TensorView<'a> {
        recipe.iter().try_fold(view, TensorView::after).unwrap()
    }

    #[test]
    fn stored_values_are_packed_again_without_loss() {
        for (rows, columns) in [(4, 1), (8, 7), (12, 9)] {
            let values: Vec<i8> = (0..rows * columns).map(|i| (i * i % 7 % 3) as i8 - 1).collect();
            let stored = Format::HuggingFace.pack(rows, columns, &values).unwrap();
            let view = || TensorView::new(DType::U8, DType::Bf16, &[rows / 4, columns], &stored[..]);
            assert!(view().is_whole());
            let numbers = after(view(), &[Recipe::Unpacked]);
            let mut read = vec![0.0; rows * columns];
            numbers.read_f32(0, &mut read).unwrap();
            assert_eq!(read, values.iter().map(|x| f32::from(*x)).collect::<Vec<_>>());
            assert!(numbers.is_whole() && numbers.elements() == rows * columns);
            let packed = after(view(), &[Recipe::Unpacked, Recipe::Packed(Levels::Ternary)]);
            assert_eq!(bytes(&packed), Format::Ternary.pack(rows, columns, &values).unwrap());
            let turned = after(view(), &[Recipe::Unpacked, Recipe::Rows(1..3), Recipe::Transposed]);
            let mut read = vec![0.0; 2 * columns];
            turned.read_f32(0, &mut read).unwrap();
            let expected = (0..2 * columns).map(|i| f32::from(values[(1 + i % 2) * columns + i / 2]));
            assert_eq!(read, expected.collect::<Vec<_>>());
            let short = TensorView::new(DType::U8, DType::F32, &[rows / 4 + 1, columns], &stored[..]);
            assert!(!after(short, &[Recipe::Unpacked]).is_whole());
        }
    }

    #[test]
    fn numbers_become_the_values_of_the_reference() {
        let numbers: Vec<f32> = (0..45).map(|i| ((i * 37 % 23) as f32 - 11.0) * 0.13).collect();
        let stored: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let read = |recipe: &[Recipe]| after(TensorView::new(DType::F32, DType::F32, &[5, 9], &stored[..]), recipe);
        let floats = |view: TensorView<'_>| {
            let mut found = vec![0.0; view.elements()];
            view.read_f32(0, &mut found).unwrap();
            found
        };
        for (levels, format, expected) in [
            (Levels::Ternary, Format::Ternary, reference::ternary(&numbers).unwrap()),
            (Levels::Binary, Format::Binary, reference::binary(9, 9, &numbers).unwrap()),
        ] {
            let packed = read(&[Recipe::Rounded(levels), Recipe::Packed(levels)]);
            assert_eq!(bytes(&packed), format.pack(5, 9, &expected.values).unwrap());
            assert!(packed.is_whole());
            assert_eq!(floats(read(&[Recipe::Divisors(levels)])), expected.scales);
        }
        let repeated = read(&[Recipe::Divisors(Levels::Ternary), Recipe::Gathered(vec![0; 3])]);
        assert_eq!(floats(repeated), [reference::ternary(&numbers).unwrap().scales[0]; 3]);
        let own = |applied| floats(after(TensorView::numbers(&[4.0]), &[Recipe::Divisor(applied)]));
        assert_eq!((own(Applied::Divides), own(Applied::Multiplies)), (vec![4.0], vec![0.25]));
    }
}
