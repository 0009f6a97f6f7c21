//! What a tensor holds, beside its shape.

use safetensors::Dtype;

use super::{Entry, header};
use crate::dtype::DType;
use crate::tensor::Encoding;

/// Types of numbers that are read.
const KNOWN: &str = "F32, F16, BF16, F64, F8_E4M3 or F8_E5M2";
/// Their names in torch.
const FLOATS: [(Dtype, &str); 4] =
    [(Dtype::F64, "float64"), (Dtype::F32, "float32"), (Dtype::F16, "float16"), (Dtype::BF16, "bfloat16")];
const EIGHT_BITS: [(Dtype, &str); 2] = [(Dtype::F8_E4M3, "float8_e4m3fn"), (Dtype::F8_E5M2, "float8_e5m2")];

/// What the numbers of a tensor are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Any, in a floating-point type.
    Numbers,
    /// Ternary values, four in each byte.
    Codes,
    /// Positive ones, in a floating-point type; reading them refuses those that are not finite.
    Scales,
}

impl Entry {
    /// The encoding, if it is one that weights may have; otherwise the fault of the tensor called `name`.
    pub(super) fn encoding(&self, name: &str) -> Result<Encoding, String> {
        match self.stored.dtype {
            Dtype::F32 => Ok(DType::F32.into()),
            Dtype::F16 => Ok(DType::F16.into()),
            Dtype::BF16 => Ok(DType::Bf16.into()),
            Dtype::U8 => Ok(DType::U8.into()),
            Dtype::F64 => Ok(Encoding::F64),
            Dtype::F8_E4M3 => Ok(Encoding::E4M3),
            Dtype::F8_E5M2 => Ok(Encoding::E5M2),
            other => Err(format!("{name} is stored as {other:?}, expected {KNOWN}")),
        }
    }

    /// The fault of the tensor called `name`, of the right shape and with these bytes, if it does not hold such numbers.
    pub(super) fn fault(&self, name: &str, content: Content, bytes: &[u8]) -> Option<String> {
        let encoding = match self.encoding(name) {
            Err(fault) => return Some(fault),
            Ok(encoding) => encoding,
        };
        match content {
            Content::Codes if encoding != DType::U8 => Some(format!(
                "{name} is stored as {:?}, expected U8, four ternary values in each byte, as config.json says",
                self.stored.dtype
            )),
            // Both bits of a value are set.
            Content::Codes => bytes
                .iter()
                .position(|byte| byte & byte >> 1 & 0x55 != 0)
                .map(|place| format!("{name} has the code 3 in its byte {place}, which no ternary value has: corrupt")),
            _ if encoding == DType::U8 => Some(format!("{name} is stored as U8, expected {KNOWN}")),
            Content::Scales => {
                let wrong = |x: &f32| x.is_finite() && !(*x > 0.0 && x.recip().is_finite());
                let found = encoding.decode(bytes).into_iter().find(wrong)?;
                Some(format!("{name} holds {found}, expected a positive number with a finite reciprocal"))
            }
            Content::Numbers => None,
        }
    }
}

/// The first floating-point tensor, or else one of 8 bits, in which no model computes, or else the first tensor; with the name
/// of its type.
pub(super) fn first_float(stored: &[header::Stored]) -> Option<(&str, String)> {
    let named = |known: &'static [(Dtype, &'static str)]| {
        let name = |dtype: Dtype| known.iter().find(|(other, _)| *other == dtype).map(|(_, name)| *name);
        let mut tensors = stored.iter().filter(|tensor| tensor.unread.is_none());
        tensors.find_map(|tensor| Some((tensor.name.as_str(), name(tensor.dtype)?.to_owned())))
    };
    let other = || stored.first().map(|tensor| (tensor.name.as_str(), format!("{:?}", tensor.dtype)));
    named(&FLOATS).or_else(|| named(&EIGHT_BITS)).or_else(other)
}
