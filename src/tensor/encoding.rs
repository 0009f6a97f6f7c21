//! How a file stores numbers: as elements of a type that graphs have, or of one that is only read.

use crate::dtype::DType;
use crate::numerics::portable::power_of_two;

/// The encoding of a tensor's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Elements of this type.
    Of(DType),
    /// IEEE binary64.
    F64,
    /// 8 bits, of which 4 are the exponent's: one NaN of each sign, no infinity (torch's `float8_e4m3fn`).
    E4M3,
    /// The upper half of a binary16 (torch's `float8_e5m2`).
    E5M2,
}

impl From<DType> for Encoding {
    fn from(dtype: DType) -> Self {
        Encoding::Of(dtype)
    }
}

impl PartialEq<DType> for Encoding {
    fn eq(&self, dtype: &DType) -> bool {
        *self == Encoding::Of(*dtype)
    }
}

impl Encoding {
    /// Bytes of `elements` contiguous elements.
    pub fn bytes(self, elements: usize) -> usize {
        match self {
            Encoding::Of(dtype) => dtype.bytes(elements),
            Encoding::F64 => 8 * elements,
            Encoding::E4M3 | Encoding::E5M2 => elements,
        }
    }

    /// Decodes elements into `values`, as many as fit: float64 rounded to the nearest float32, others exactly.
    pub fn decode_into(self, bytes: &[u8], values: &mut [f32]) {
        match self {
            Encoding::Of(dtype) => dtype.decode_into(bytes, values),
            _ => self.decode_apart(bytes, 1, values),
        }
    }

    /// As [`Encoding::decode_into`], for elements `step` apart.
    pub fn decode_apart(self, bytes: &[u8], step: usize, values: &mut [f32]) {
        match self {
            Encoding::Of(dtype) => dtype.decode_apart(bytes, step, values),
            Encoding::F64 => {
                let elements = bytes.chunks_exact(8).step_by(step);
                values.iter_mut().zip(elements).for_each(|(value, element)| {
                    *value = f64::from_le_bytes(element.try_into().unwrap_or_default()) as f32;
                });
            }
            Encoding::E4M3 => values.iter_mut().zip(bytes.iter().step_by(step)).for_each(|(v, byte)| *v = e4m3(*byte)),
            Encoding::E5M2 => values.iter_mut().zip(bytes.iter().step_by(step)).for_each(|(v, byte)| *v = e5m2(*byte)),
        }
    }

    /// Decodes all elements.
    pub fn decode(self, bytes: &[u8]) -> Vec<f32> {
        let mut values = vec![0.0; bytes.len() / self.bytes(1)];
        self.decode_into(bytes, &mut values);
        values
    }
}

/// The magnitude's bits moved to those of a binary32 are it times 2^-120, subnormal ones too.
fn e4m3(byte: u8) -> f32 {
    let magnitude = match byte & 0x7f {
        0x7f => f32::NAN,
        bits => f32::from_bits(u32::from(bits) << 20) * power_of_two(120) as f32,
    };
    if byte & 0x80 == 0 { magnitude } else { -magnitude }
}

fn e5m2(byte: u8) -> f32 {
    half::f16::from_bits(u16::from(byte) << 8).to_f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_both_kinds() {
        for (byte, e4, e5) in [
            (0x00, 0.0, 0.0),
            (0x01, 2f32.powi(-9), 2f32.powi(-16)),
            (0x07, 7.0 * 2f32.powi(-9), 1.75 * 2f32.powi(-14)),
            (0x08, 2f32.powi(-6), 2f32.powi(-13)),
            (0x38, 1.0, 0.5),
            (0x3c, 1.5, 1.0),
            (0x7b, 352.0, 57344.0),
            (0x7e, 448.0, f32::NAN),
            (0x7c, 384.0, f32::INFINITY),
            (0x7f, f32::NAN, f32::NAN),
        ] {
            for (encoding, expected) in [(Encoding::E4M3, e4), (Encoding::E5M2, e5)] {
                let found = encoding.decode(&[byte, byte | 0x80]);
                let same = |x: f32, y: f32| x == y || x.is_nan() && y.is_nan();
                assert!(same(found[0], expected) && same(found[1], -expected), "{encoding:?} {byte:#x}: {found:?}");
            }
        }
        assert!(Encoding::E4M3.decode(&[0x80])[0].is_sign_negative());
    }

    #[test]
    fn float64_is_rounded_to_the_nearest() {
        let numbers = [1.0, 1.0 + 2f64.powi(-24), 1.0 + 2f64.powi(-24) + 2f64.powi(-50), -1e300, 1e-50, f64::NAN];
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let found = Encoding::F64.decode(&bytes);
        assert_eq!(found[..5], [1.0, 1.0, 1.0 + f32::EPSILON, f32::NEG_INFINITY, 0.0]);
        assert!(found[5].is_nan());
        let mut apart = [0.0; 2];
        Encoding::F64.decode_apart(&bytes[8..], 2, &mut apart);
        assert_eq!(apart, [1.0, f32::NEG_INFINITY]);
    }

    #[test]
    fn views_read_every_encoding() {
        use crate::tensor::{Recipe, TensorView};
        let numbers = [1.0, -2.0, 0.5, 4.0, -0.25, 16.0];
        let wide: Vec<u8> = numbers.iter().flat_map(|x| f64::from(*x).to_le_bytes()).collect();
        let [four, five] = [[0x38u8, 0xc0, 0x30, 0x48, 0xa8, 0x58], [0x3c, 0xc0, 0x38, 0x44, 0xb4, 0x4c]];
        for (encoding, bytes) in [(Encoding::F64, &wide[..]), (Encoding::E4M3, &four), (Encoding::E5M2, &five)] {
            assert_eq!(encoding.decode(bytes), numbers, "{encoding:?}");
            let view = || TensorView::new(encoding, DType::F32, &[2, 3], bytes);
            let mut found = [0.0; 2];
            view().read_f32(3, &mut found).unwrap();
            assert_eq!(found, [4.0, -0.25]);
            let mut turned = [0.0; 6];
            view().after(&Recipe::Transposed).unwrap().read_f32(0, &mut turned).unwrap();
            assert_eq!(turned, [1.0, 4.0, -2.0, -0.25, 0.5, 16.0]);
            let mut halves = [0; 4];
            view().read(1, DType::F16, &mut halves).unwrap();
            assert_eq!(halves, [0x00, 0xc0, 0x00, 0x38]);
            assert!(view().is_whole());
            assert!(!TensorView::new(encoding, DType::F32, &[2, 4], bytes).is_whole());
        }
    }
}
