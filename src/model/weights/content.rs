//! What a tensor holds, beside its shape.

use super::Entry;
use crate::dtype::DType;

/// What the numbers of a tensor are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Any, in a floating-point type.
    Numbers,
    /// Ternary values, four in each byte.
    Codes,
    /// Positive ones, in a floating-point type.
    Scales,
}

impl Entry {
    /// The fault of the tensor called `name`, of the right shape and with these bytes, if it does not hold such numbers.
    pub(super) fn fault(&self, name: &str, content: Content, bytes: &[u8]) -> Option<String> {
        let dtype = match self.stored_type(name) {
            Err(fault) => return Some(fault),
            Ok(dtype) => dtype,
        };
        match content {
            Content::Codes if dtype != DType::U8 => Some(format!(
                "{name} is stored as {:?}, expected U8, four ternary values in each byte, as config.json says",
                self.stored.dtype
            )),
            // Both bits of a value are set.
            Content::Codes => bytes
                .iter()
                .position(|byte| byte & byte >> 1 & 0x55 != 0)
                .map(|place| format!("{name} has the code 3 in its byte {place}, which no ternary value has: corrupt")),
            _ if dtype == DType::U8 => Some(format!("{name} is stored as U8, expected F32, F16 or BF16")),
            Content::Scales => {
                let wrong = |x: &f32| !(x.is_finite() && *x > 0.0 && x.recip().is_finite());
                let found = dtype.decode(bytes).into_iter().find(wrong)?;
                Some(format!("{name} holds {found}, expected a positive finite number"))
            }
            Content::Numbers => None,
        }
    }
}
