//! The numbers of a tensor that is read as a whole, integers too.

use safetensors::Dtype;

use super::{Weights, header};
use crate::dtype::DType;
use crate::process::memory::reserved;
use crate::tensor::Encoding;
use crate::{Error, Result};

/// Types of integers that are read.
const INTEGERS: &str = "I8, U8, I16, U16, I32, U32, I64 or U64";

impl Weights {
    /// All elements of a tensor, in float64; `None` if there is no such tensor. Integers are exact up to 2^53.
    ///
    /// # Errors
    /// `Weights` for a type that holds neither integers nor floats; `OutOfMemory`.
    pub fn numbers(&self, name: &str) -> Result<Option<Vec<f64>>> {
        let Some(entry) = self.tensors.get(name) else { return Ok(None) };
        let fault = |problem| Error::Weights { path: self.path.clone(), problems: vec![problem] };
        if let Some(header::Unread { reason, remedy }) = &entry.stored.unread {
            return Err(fault(format!("tensor {name} {reason}; {remedy}")));
        }
        let (bytes, dtype) = (self.bytes(entry), entry.stored.dtype);
        let mut found = reserved(bytes.len() / (dtype.bitsize() / 8).max(1), name)?;
        match dtype {
            Dtype::F64 => found.extend(bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes))),
            Dtype::F32 => found.extend(floats(DType::F32, bytes)),
            Dtype::F16 => found.extend(floats(DType::F16, bytes)),
            Dtype::BF16 => found.extend(floats(DType::Bf16, bytes)),
            Dtype::I8 => found.extend(bytes.iter().map(|byte| f64::from(byte.cast_signed()))),
            Dtype::U8 => found.extend(bytes.iter().map(|byte| f64::from(*byte))),
            Dtype::I16 => found.extend(bytes.as_chunks().0.iter().map(|bytes| f64::from(i16::from_le_bytes(*bytes)))),
            Dtype::U16 => found.extend(bytes.as_chunks().0.iter().map(|bytes| f64::from(u16::from_le_bytes(*bytes)))),
            Dtype::I32 => found.extend(bytes.as_chunks().0.iter().map(|bytes| f64::from(i32::from_le_bytes(*bytes)))),
            Dtype::U32 => found.extend(bytes.as_chunks().0.iter().map(|bytes| f64::from(u32::from_le_bytes(*bytes)))),
            Dtype::I64 => found.extend(bytes.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes) as f64)),
            Dtype::U64 => found.extend(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes) as f64)),
            other => {
                return Err(fault(format!(
                    "{} is stored as {other:?}, expected F32, F16, BF16, F64, {INTEGERS}",
                    entry.stored.name
                )));
            }
        }
        Ok(Some(found))
    }

    /// Whether a tensor holds integers.
    pub fn is_integer(&self, name: &str) -> bool {
        let integers = [Dtype::I8, Dtype::U8, Dtype::I16, Dtype::U16, Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64];
        self.tensors.get(name).is_some_and(|entry| integers.contains(&entry.stored.dtype))
    }

    /// Declares that what is made of the tensors is in float32, whatever type they are stored in.
    pub fn make_float32(&mut self) {
        if let Some(stated) = &mut self.stored {
            stated.name = DType::F32.name().into();
        }
    }
}

/// Floats that float32 holds exactly.
fn floats(dtype: DType, bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    Encoding::from(dtype).decode(bytes).into_iter().map(f64::from)
}
