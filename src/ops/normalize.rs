//! Division of each row by its Euclidean norm.

use super::{Counts, Operation, Shape};
use crate::{Error, Result};

/// `y = x / max(||x||, eps)` over the last axis. Operands: `x [M, N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalize {
    /// Smallest divisor; sentence-transformers uses 1e-12.
    pub eps: f32,
}

impl Operation for Normalize {
    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        match operands {
            [x] => Ok(vec![(*x).clone()]),
            _ => Err(Error::InvalidArgument(format!("normalize: {} operands, expected 1", operands.len()))),
        }
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        3 * operands[0].elements(counts) as u64
    }
}
