//! Element types, and numbers to and from their bits.

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use crate::Error;

/// How an element is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16, two to a word.
    F16,
    /// The upper half of a binary32, two to a word.
    Bf16,
    /// Unsigned 32-bit integer: ids, positions, offsets.
    U32,
}

/// Elements converted at a time.
const BLOCK: usize = 1024;

impl DType {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            DType::F16 | DType::Bf16 => 2,
            DType::F32 | DType::U32 => 4,
        }
    }

    /// NumPy's name.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "float32",
            DType::F16 => "float16",
            DType::Bf16 => "bfloat16",
            DType::U32 => "uint32",
        }
    }

    /// Whether it is a float of 16 bits.
    pub fn is_narrow(self) -> bool {
        matches!(self, DType::F16 | DType::Bf16)
    }

    /// The nearest number of the type in place of each number, ties to even.
    pub fn round(self, values: &mut [f32]) {
        match self {
            DType::F16 => values.iter_mut().for_each(|v| *v = half::f16::from_f32(*v).to_f32()),
            DType::Bf16 => values.iter_mut().for_each(|v| *v = half::bf16::from_f32(*v).to_f32()),
            DType::F32 | DType::U32 => {}
        }
    }

    /// Writes numbers as elements of a floating-point type, rounded as [`DType::round`] does.
    pub fn encode(self, values: &[f32], bytes: &mut [u8]) {
        let mut block = [0u16; BLOCK];
        for (values, bytes) in values.chunks(BLOCK).zip(bytes.chunks_mut(BLOCK * self.size())) {
            let words = &mut block[..values.len()];
            match self {
                DType::F16 => words.reinterpret_cast_mut::<half::f16>().convert_from_f32_slice(values),
                DType::Bf16 => words.reinterpret_cast_mut::<half::bf16>().convert_from_f32_slice(values),
                DType::F32 | DType::U32 => {
                    bytes.copy_from_slice(bytemuck::cast_slice(values));
                    continue;
                }
            }
            bytes.copy_from_slice(bytemuck::cast_slice(words));
        }
    }

    /// The numbers of elements of a floating-point type.
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        let pairs = bytes.chunks_exact(2).map(|pair| [pair[0], pair[1]]);
        match self {
            DType::F16 => pairs.map(|pair| half::f16::from_le_bytes(pair).to_f32()).collect(),
            DType::Bf16 => pairs.map(|pair| half::bf16::from_le_bytes(pair).to_f32()).collect(),
            DType::F32 | DType::U32 => bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect(),
        }
    }
}

impl std::str::FromStr for DType {
    type Err = Error;

    /// The floating-point types, by NumPy's names.
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
            let mut bytes = vec![0; values.len() * dtype.size()];
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
}
