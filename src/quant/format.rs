//! How matrices of two or three values are stored, `[N, K]`, row after row before they are packed.
//!
//! Codes: a ternary value `v` is `v + 1` in two bits, 0, 1 or 2; a sign is one bit, 1 for +1 and 0 for -1. Integers of
//! eight bits are stored as they are.
//!
//! ```text
//! Binary        a byte has eight neighbours of a row, the first in its lowest bit; rows start at whole bytes
//!                 bit    7    6    5    4    3    2    1    0
//!               byte 0  c7   c6   c5   c4   c3   c2   c1   c0     columns 0 .. 8 of a row
//!
//! Ternary       a byte has four neighbours of a row, the first in its lowest bits; rows start at whole bytes
//!                 bits  7 6  5 4  3 2  1 0
//!               byte 0   c3   c2   c1   c0                        columns 0 .. 4 of a row
//!
//! HuggingFace   uint8 [N / 4, K]: a byte has one column of four rows, a quarter of the rows apart
//!                 bits       7 6          5 4         3 2      1 0
//!               byte [r, k]  r + 3 N/4    r + 2 N/4   r + N/4  r
//!
//! I2S           blocks of 128 neighbours in 32 bytes, and after all blocks 32 bytes: the scale (float32), zeros
//!                 bits  7 6  5 4  3 2  1 0
//!               byte j   c0   c1   c2   c3                        c0 is column j of the block, c1 column 32 + j,
//!                                                                 c2 column 64 + j, c3 column 96 + j
//! ```
//!
//! Kernels read `Binary` and `Ternary`. `HuggingFace` is that of transformers' `BitLinear` (`integrations/bitnet.py`), `I2S`
//! that of bitnet.cpp's GGUF files. All ternary formats hold the same values, so converting among them loses nothing.

use crate::ops::Levels;
use crate::{Error, Result};

/// How values of few bits are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Signs, eight neighbours of a row per byte.
    Binary,
    /// Ternary values, four neighbours of a row per byte.
    Ternary,
    /// Ternary values, a column of four rows per byte.
    HuggingFace,
    /// Ternary values, in blocks of 128, with a scale after the last.
    I2S,
}

/// Values of a block of [`Format::I2S`], and the bytes of the block, as many as those after the last.
const BLOCK: usize = 128;
const BLOCK_BYTES: usize = 32;

impl Format {
    /// Every format, with its name in Python.
    pub const ALL: [(Format, &'static str); 4] = [
        (Format::Binary, "binary"),
        (Format::Ternary, "ternary"),
        (Format::HuggingFace, "huggingface"),
        (Format::I2S, "i2_s"),
    ];

    /// The values.
    pub fn levels(self) -> Levels {
        if self == Format::Binary { Levels::Binary } else { Levels::Ternary }
    }

    /// The bytes of a matrix `[rows, columns]`.
    ///
    /// # Errors
    /// `InvalidArgument` for a matrix that does not divide into the format's parts.
    ///
    /// ```
    /// use grilly::quant::Format;
    /// let sizes = Format::ALL.map(|(format, _)| format.bytes(8, 128).unwrap());
    /// assert_eq!(sizes, [128, 256, 256, 256 + 32]);
    /// assert!(Format::HuggingFace.bytes(6, 128).is_err() && Format::I2S.bytes(8, 64).is_err());
    /// ```
    pub fn bytes(self, rows: usize, columns: usize) -> Result<usize> {
        let name = self.name();
        let wrong = |what: String| Err(Error::InvalidArgument(format!("{name}: {what}")));
        let Some(values) = rows.checked_mul(columns).filter(|values| *values <= isize::MAX as usize) else {
            return wrong(format!("a matrix [{rows}, {columns}] has more values than memory has bytes"));
        };
        match self {
            Format::HuggingFace if !rows.is_multiple_of(4) => {
                wrong(format!("{rows} rows, expected a multiple of 4, the rows of a byte"))
            }
            Format::I2S if !columns.is_multiple_of(BLOCK) => {
                wrong(format!("{columns} columns, expected a multiple of {BLOCK}, the values of a block"))
            }
            Format::I2S => Ok(values / 4 + BLOCK_BYTES),
            Format::HuggingFace => Ok(values / 4),
            Format::Binary | Format::Ternary => Ok(rows * self.levels().bytes(columns)),
        }
    }

    /// Packs values; the scale of [`Format::I2S`], by which a value is multiplied, is one of [`Format::set_scale`].
    ///
    /// # Errors
    /// As [`Format::bytes`], and `InvalidArgument` for another number of values and for values that have no code.
    ///
    /// ```
    /// use grilly::quant::Format;
    /// let bytes = Format::Ternary.pack(1, 5, &[-1, 0, 1, 1, -1]).unwrap();
    /// assert_eq!(bytes, [0b10_10_01_00, 0b00]);
    /// assert_eq!(Format::Ternary.unpack(1, 5, &bytes).unwrap(), [-1, 0, 1, 1, -1]);
    /// ```
    pub fn pack(self, rows: usize, columns: usize, values: &[i8]) -> Result<Vec<u8>> {
        let (name, mut packed) = (self.name(), vec![0; self.bytes(rows, columns)?]);
        if values.len() != rows * columns {
            let found = values.len();
            return Err(Error::InvalidArgument(format!("{name}: {found} values, expected [{rows}, {columns}]")));
        }
        for (place, value) in values.iter().enumerate() {
            let code = match (self.levels(), value) {
                (Levels::Binary, -1) | (Levels::Ternary, -1) => 0,
                (Levels::Binary, 1) | (Levels::Ternary, 0) => 1,
                (Levels::Ternary, 1) => 2,
                (levels, _) => {
                    let known = if levels == Levels::Binary { "-1 or 1" } else { "-1, 0 or 1" };
                    let (row, column) = (place / columns, place % columns);
                    return Err(Error::InvalidArgument(format!(
                        "{name}: value {value} at [{row}, {column}], expected {known}"
                    )));
                }
            };
            let (byte, shift) = self.place(rows, columns, place);
            packed[byte] |= code << shift;
        }
        Ok(packed)
    }

    /// The values of a packed matrix.
    ///
    /// # Errors
    /// As [`Format::bytes`], and `InvalidArgument` for another number of bytes and for the code 3.
    pub fn unpack(self, rows: usize, columns: usize, packed: &[u8]) -> Result<Vec<i8>> {
        self.check(rows, columns, packed)?;
        let value = |place| {
            let (byte, shift) = self.place(rows, columns, place);
            let code = packed[byte] >> shift;
            match self.levels() {
                Levels::Binary => Ok(2 * (code & 1) as i8 - 1),
                _ if code & 3 == 3 => Err(Error::InvalidArgument(format!(
                    "{}: code 3 at [{}, {}], which no value has",
                    self.name(),
                    place / columns,
                    place % columns
                ))),
                _ => Ok((code & 3) as i8 - 1),
            }
        };
        (0..rows * columns).map(value).collect()
    }

    /// The scale after the blocks of [`Format::I2S`], by which values are multiplied; `None` for other formats.
    ///
    /// # Errors
    /// As [`Format::unpack`], and `InvalidArgument` for a scale that is not finite.
    ///
    /// ```
    /// use grilly::quant::Format;
    /// let mut bytes = Format::I2S.pack(1, 128, &[1; 128]).unwrap();
    /// Format::I2S.set_scale(1, 128, &mut bytes, 0.5).unwrap();
    /// assert_eq!(Format::I2S.scale(1, 128, &bytes).unwrap(), Some(0.5));
    /// ```
    pub fn scale(self, rows: usize, columns: usize, packed: &[u8]) -> Result<Option<f32>> {
        self.check(rows, columns, packed)?;
        if self != Format::I2S {
            return Ok(None);
        }
        let end = packed.len() - BLOCK_BYTES;
        let scale = f32::from_le_bytes([packed[end], packed[end + 1], packed[end + 2], packed[end + 3]]);
        self.finite(scale).map(Some)
    }

    /// Writes the scale after the blocks of [`Format::I2S`].
    ///
    /// # Errors
    /// As [`Format::scale`], and `InvalidArgument` for a format without a scale.
    pub fn set_scale(self, rows: usize, columns: usize, packed: &mut [u8], scale: f32) -> Result<()> {
        self.check(rows, columns, packed)?;
        if self != Format::I2S {
            let name = self.name();
            return Err(Error::InvalidArgument(format!("{name}: it has no scale, which is a tensor of its own")));
        }
        let end = packed.len() - BLOCK_BYTES;
        packed[end..end + 4].copy_from_slice(&self.finite(scale)?.to_le_bytes());
        Ok(())
    }

    /// The byte and the lowest bit of a value.
    fn place(self, rows: usize, columns: usize, place: usize) -> (usize, usize) {
        let (row, column) = (place / columns, place % columns);
        match self {
            Format::Binary => (row * columns.div_ceil(8) + column / 8, column % 8),
            Format::Ternary => (row * columns.div_ceil(4) + column / 4, 2 * (column % 4)),
            Format::HuggingFace => (row % (rows / 4) * columns + column, 2 * (row / (rows / 4))),
            Format::I2S => {
                let (block, within) = (place / BLOCK, place % BLOCK);
                (block * BLOCK_BYTES + within % BLOCK_BYTES, 6 - 2 * (within / BLOCK_BYTES))
            }
        }
    }

    fn check(self, rows: usize, columns: usize, packed: &[u8]) -> Result<()> {
        let expected = self.bytes(rows, columns)?;
        if packed.len() == expected {
            return Ok(());
        }
        let (name, found) = (self.name(), packed.len());
        Err(Error::InvalidArgument(format!(
            "{name}: {found} bytes, expected {expected} of a matrix [{rows}, {columns}]"
        )))
    }

    fn finite(self, scale: f32) -> Result<f32> {
        let wrong =
            || Error::InvalidArgument(format!("{}: the scale is {scale}, expected a finite number", self.name()));
        Some(scale).filter(|scale| scale.is_finite()).ok_or_else(wrong)
    }

    /// Its name in Python and in messages.
    pub fn name(self) -> &'static str {
        Format::ALL.iter().find(|(format, _)| *format == self).map_or("", |(_, name)| name)
    }
}

/// Whether the `weight_scale` of a checkpoint divides a ternary value or multiplies it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Applied {
    /// [`WeightScale::Divides`].
    Divides,
    /// [`WeightScale::Multiplies`].
    Multiplies,
}

/// What the `weight_scale` of a checkpoint does with a ternary value, of which both are in use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WeightScale {
    /// The value is divided by it, `1 / mean|W|`: transformers' packed `BitLinear`, and kernels.
    Divides(f32),
    /// The value is multiplied by it, `mean|W|`: transformers' `AutoBitLinear`, and I2_S.
    Multiplies(f32),
}

impl WeightScale {
    /// The number by which values are divided: itself, or its reciprocal, rounded once.
    ///
    /// # Errors
    /// `InvalidArgument` for a number that is not finite or not positive.
    ///
    /// ```
    /// use grilly::quant::format::WeightScale;
    /// assert_eq!(WeightScale::Multiplies(0.25).divisor().unwrap(), 4.0);
    /// assert!(WeightScale::Divides(f32::NAN).divisor().is_err());
    /// ```
    pub fn divisor(self) -> Result<f32> {
        self.positive(|scale| match self {
            WeightScale::Divides(_) => scale,
            WeightScale::Multiplies(_) => 1.0 / scale,
        })
    }

    /// The number by which values are multiplied: itself, or its reciprocal, rounded once.
    ///
    /// # Errors
    /// As [`WeightScale::divisor`].
    pub fn factor(self) -> Result<f32> {
        self.positive(|scale| match self {
            WeightScale::Divides(_) => 1.0 / scale,
            WeightScale::Multiplies(_) => scale,
        })
    }

    fn positive(self, number: impl Fn(f32) -> f32) -> Result<f32> {
        let (WeightScale::Divides(scale) | WeightScale::Multiplies(scale)) = self;
        if scale.is_finite() && scale > 0.0 && number(scale).is_finite() {
            return Ok(number(scale));
        }
        Err(Error::InvalidArgument(format!("weight_scale is {scale}, expected a positive finite number")))
    }
}

#[cfg(test)]
mod tests;
