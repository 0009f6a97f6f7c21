//! Conversion between element types.

use super::{Counts, Operation, Shape};
use crate::graph::DType;
use crate::{Error, Result};

/// What a [`Cast`] makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
pub enum CastTo {
    /// IEEE binary32.
    #[default]
    #[serde(rename = "float32")]
    F32,
    /// IEEE binary16, rounded to nearest, ties to even; too large becomes infinity.
    #[serde(rename = "float16")]
    F16,
}

impl CastTo {
    /// Bytes of one element.
    pub fn size(self) -> usize {
        match self {
            CastTo::F32 => 4,
            CastTo::F16 => 2,
        }
    }
}

/// The same numbers in another element type. Operands: `x` (float32, float16, or int32 made float32).
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cast {
    /// The result's element type; default float32.
    pub to: CastTo,
}

impl Operation for Cast {
    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        match operands {
            [x] => Ok(vec![(*x).clone()]),
            _ => Err(Error::InvalidArgument(format!("cast: {} operands, expected 1", operands.len()))),
        }
    }

    fn narrow(&self, place: usize) -> bool {
        place == 0
    }

    fn flops(&self, _operands: &[&Shape], _counts: Counts) -> u64 {
        0
    }

    fn result_type(&self, _operands: &[DType]) -> DType {
        match self.to {
            CastTo::F32 => DType::F32,
            CastTo::F16 => DType::F16,
        }
    }
}
