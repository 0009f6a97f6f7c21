//! Element types and conversion of numbers to and from their bits.

use std::borrow::Cow;
use std::str::FromStr;

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use crate::Error;

/// Storage type of an element, in graphs, arrays, files and shaders alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DType {
    /// IEEE binary32.
    #[default]
    F32,
    /// IEEE binary16, two per 32-bit word.
    F16,
    /// bfloat16: the upper half of a binary32, two per word.
    Bf16,
    /// Signed 32-bit integer: ids, positions, masks.
    I32,
    /// Unsigned 32-bit integer: ids, positions, offsets.
    U32,
    /// Signed 8-bit integer, four per word.
    I8,
    /// Unsigned 8-bit integer, four per word.
    U8,
}

/// Number of elements converted per iteration.
const BLOCK: usize = 1024;

impl DType {
    /// Bits of one element.
    pub fn bits(self) -> usize {
        match self {
            DType::F32 | DType::I32 | DType::U32 => 32,
            DType::F16 | DType::Bf16 => 16,
            DType::I8 | DType::U8 => 8,
        }
    }

    /// Bytes of `elements` contiguous elements.
    pub fn bytes(self, elements: usize) -> usize {
        elements * (self.bits() / 8)
    }

    /// NumPy's name of the type.
    pub fn name(self) -> Cow<'static, str> {
        let name = match self {
            DType::F32 => "float32",
            DType::F16 => "float16",
            DType::Bf16 => "bfloat16",
            DType::I32 => "int32",
            DType::U32 => "uint32",
            DType::I8 => "int8",
            DType::U8 => "uint8",
        };
        name.into()
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::Bf16)
    }

    /// Whether it is a 32-bit integer, as used for ids and offsets.
    pub fn is_index(self) -> bool {
        matches!(self, DType::I32 | DType::U32)
    }

    /// Whether it is a 16-bit float.
    pub fn is_narrow(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16)
    }

    /// Rounds each number to the nearest value of the type, ties to even.
    pub fn round(self, values: &mut [f32]) {
        if self.is_narrow() {
            let mut block = [0; BLOCK];
            for values in values.chunks_mut(BLOCK) {
                let words = &mut block[..values.len()];
                self.narrow(values, words);
                self.widen(words, values);
            }
        }
    }

    /// The bits of the nearest values of a 16-bit type, by the processor's vector conversions where it has them.
    fn narrow(self, values: &[f32], words: &mut [u16]) {
        match self {
            DType::F16 => words.reinterpret_cast_mut::<half::f16>().convert_from_f32_slice(values),
            _ => words.reinterpret_cast_mut::<half::bf16>().convert_from_f32_slice(values),
        }
    }

    /// The numbers with these bits in a 16-bit type, likewise.
    fn widen(self, words: &[u16], values: &mut [f32]) {
        match self {
            DType::F16 => words.reinterpret_cast::<half::f16>().convert_to_f32_slice(values),
            _ => words.reinterpret_cast::<half::bf16>().convert_to_f32_slice(values),
        }
    }

    /// Whether no element is NaN or infinite; true of integers. The loops are those that the compiler puts into vectors.
    pub fn is_finite(self, bytes: &[u8]) -> bool {
        let narrow = |exponent: u16| {
            let of = |pair: &[u8; 2]| u16::from(u16::from_le_bytes(*pair) & exponent == exponent);
            bytes.as_chunks().0.iter().fold(0, |found, pair| found | of(pair)) == 0
        };
        match self {
            DType::F32 => {
                let of = |word: &[u8; 4]| u32::from(u32::from_le_bytes(*word) & 0x7f80_0000 == 0x7f80_0000);
                bytes.as_chunks().0.iter().fold(0, |found, word| found | of(word)) == 0
            }
            DType::F16 => narrow(0x7c00),
            DType::Bf16 => narrow(0x7f80),
            _ => true,
        }
    }

    /// Writes numbers as elements of a floating-point type, rounded as by [`DType::round`], or as int8, to the nearest integer
    /// of its range. Returns whether all are finite in a floating-point type.
    pub fn encode(self, values: &[f32], bytes: &mut [u8]) -> bool {
        let mut block = [0u16; BLOCK];
        let mut finite = true;
        for (values, bytes) in values.chunks(BLOCK).zip(bytes.chunks_mut(self.bytes(BLOCK))) {
            let words = &mut block[..values.len()];
            match self {
                DType::F16 | DType::Bf16 => self.narrow(values, words),
                DType::I8 => {
                    // The conversion from float saturates.
                    bytes
                        .iter_mut()
                        .zip(values)
                        .for_each(|(byte, x)| *byte = (x.round_ties_even() as i8).cast_unsigned());
                    continue;
                }
                _ => {
                    debug_assert_eq!(self, DType::F32);
                    let own = bytemuck::cast_slice(values);
                    finite &= self.is_finite(own);
                    bytes.copy_from_slice(own);
                    continue;
                }
            }
            let own = bytemuck::cast_slice(words);
            finite &= self.is_finite(own);
            bytes.copy_from_slice(own);
        }
        finite
    }

    /// Decodes elements of a floating-point type into `values`, as many as fit.
    pub fn decode_into(self, bytes: &[u8], values: &mut [f32]) {
        if self.is_narrow() {
            let mut block = [0; BLOCK];
            for (values, bytes) in values.chunks_mut(BLOCK).zip(bytes.chunks(2 * BLOCK)) {
                let count = values.len().min(bytes.len() / 2);
                let words = &mut block[..count];
                bytemuck::cast_slice_mut(words).copy_from_slice(&bytes[..2 * count]);
                self.widen(words, &mut values[..count]);
            }
        } else {
            debug_assert_eq!(self, DType::F32);
            bytemuck::cast_slice_mut(values).copy_from_slice(bytes);
        }
    }

    /// As [`DType::decode_into`], for elements `step` apart.
    pub fn decode_apart(self, bytes: &[u8], step: usize, values: &mut [f32]) {
        if self.is_narrow() {
            let mut block = [0; BLOCK];
            for (values, bytes) in values.chunks_mut(BLOCK).zip(bytes.chunks(2 * BLOCK * step)) {
                let words = &mut block[..values.len()];
                let elements = bytes.as_chunks().0.iter().step_by(step);
                words.iter_mut().zip(elements).for_each(|(word, pair)| *word = u16::from_le_bytes(*pair));
                self.widen(words, values);
            }
        } else {
            debug_assert_eq!(self, DType::F32);
            let elements = bytes.as_chunks().0.iter().step_by(step);
            values.iter_mut().zip(elements).for_each(|(value, word)| *value = f32::from_le_bytes(*word));
        }
    }

    /// Decodes elements of a floating-point type.
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        let mut values = vec![0.0; bytes.len() * 8 / self.bits()];
        self.decode_into(bytes, &mut values);
        values
    }
}

impl TryFrom<String> for DType {
    type Error = Error;

    /// As [`DType::from_str`].
    fn try_from(name: String) -> Result<Self, Error> {
        name.parse()
    }
}

impl From<DType> for String {
    fn from(dtype: DType) -> Self {
        dtype.name().into_owned()
    }
}

impl FromStr for DType {
    type Err = Error;

    /// Parses NumPy's name of a floating-point type.
    fn from_str(name: &str) -> Result<Self, Error> {
        let known = [DType::F32, DType::F16, DType::Bf16].into_iter().find(|dtype| dtype.name() == name);
        known.ok_or_else(|| {
            Error::InvalidArgument(format!("dtype is {name:?}, expected \"float32\", \"float16\" or \"bfloat16\""))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_their_own_type_and_are_rounded_by_others() {
        let values: Vec<f32> = (0..3000).map(|i| (i as f32 - 1500.0) * 0.37).collect();
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            let mut bytes = vec![0; dtype.bytes(values.len())];
            dtype.encode(&values, &mut bytes);
            let mut rounded = values.clone();
            dtype.round(&mut rounded);
            assert_eq!(dtype.decode(&bytes), rounded, "{dtype:?}");
            let units = if dtype == DType::F32 { 0.0 } else { f32::from(half::bf16::EPSILON) / 2.0 };
            assert!(rounded.iter().zip(&values).all(|(y, x)| (y - x).abs() <= units * x.abs()), "{dtype:?}");
            assert_eq!(dtype.name().parse::<DType>().unwrap(), dtype);
        }
        for name in ["int8", "uint32", "half", ""] {
            let error = name.parse::<DType>().unwrap_err().to_string();
            assert!(error.contains("expected \"float32\", \"float16\" or \"bfloat16\""), "{error}");
        }
    }

    #[test]
    fn vectors_are_converted_like_single_numbers_in_software() {
        use half::{bf16, f16};
        let words: Vec<u16> = (0..=u16::MAX).collect();
        // Of the whole range, and halfway between neighbours of bfloat16.
        let bits = (0..u32::MAX).step_by(65_521).chain(words.iter().map(|word| u32::from(*word) << 16 | 0x8000));
        let numbers: Vec<f32> = bits.map(f32::from_bits).collect();
        type Both = (DType, fn(u16) -> f32, fn(f32) -> u16);
        let both: [Both; 2] = [
            (DType::F16, |word| f16::from_bits(word).to_f32_const(), |x| f16::from_f32_const(x).to_bits()),
            (DType::Bf16, |word| bf16::from_bits(word).to_f32_const(), |x| bf16::from_f32_const(x).to_bits()),
        ];
        let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
        for (dtype, widened, narrowed) in both {
            let found = dtype.decode(bytemuck::cast_slice(&words));
            assert!(words.iter().zip(&found).all(|(word, x)| same(*x, widened(*word))), "{dtype:?}");
            let mut apart = vec![0.0; words.len().div_ceil(3)];
            dtype.decode_apart(bytemuck::cast_slice(&words), 3, &mut apart);
            assert!(words.iter().step_by(3).zip(&apart).all(|(word, x)| same(*x, widened(*word))), "{dtype:?}");
            let mut rounded = numbers.clone();
            dtype.round(&mut rounded);
            assert!(numbers.iter().zip(&rounded).all(|(x, y)| same(*y, widened(narrowed(*x)))), "{dtype:?}");
        }
    }

    #[test]
    fn one_number_that_is_not_finite_is_seen_anywhere() {
        for dtype in [DType::F32, DType::F16, DType::Bf16] {
            for count in [0, 1, 7, 64, 1500] {
                let mut values: Vec<f32> = (0..count).map(|i| (i as f32 - 750.0) * 80.0).collect();
                let mut bytes = vec![0; 1 + dtype.bytes(count)];
                assert!(dtype.encode(&values, &mut bytes[1..]) && dtype.is_finite(&bytes[1..]), "{dtype:?} {count}");
                for place in [0, count / 2, count.saturating_sub(1)].into_iter().filter(|place| *place < count) {
                    for wrong in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                        let before = std::mem::replace(&mut values[place], wrong);
                        assert!(!dtype.encode(&values, &mut bytes[1..]), "{dtype:?} {count} {place} {wrong}");
                        assert!(!dtype.is_finite(&bytes[1..]), "{dtype:?} {count} {place} {wrong}");
                        values[place] = before;
                    }
                }
            }
        }
        assert!(!DType::F16.encode(&[65520.0], &mut [0; 2]) && DType::F16.encode(&[65519.0], &mut [0; 2]));
        assert!(DType::U8.is_finite(&[255; 8]) && DType::U32.is_finite(&[255; 8]));
    }

    #[test]
    fn elements_lie_side_by_side() {
        let sizes = [(DType::F32, 20), (DType::U32, 20), (DType::Bf16, 10), (DType::I8, 5)];
        for (dtype, bytes) in sizes {
            assert_eq!((dtype.bytes(5), dtype.bytes(0)), (bytes, 0), "{dtype:?}");
        }
    }
}
