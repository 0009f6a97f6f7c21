//! `y = a + b`.

use super::{Counts, Operation, Shape};
use crate::{Error, Result};

/// Elementwise sum. Operands: `a`, `b`, of one shape.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Add {}

impl Operation for Add {
    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        match operands {
            [a, b] if a == b => Ok(vec![(*a).clone()]),
            [a, b] => Err(Error::InvalidArgument(format!("add: b has shape {b}, expected {a}"))),
            _ => Err(Error::InvalidArgument(format!("add: {} operands, expected 2", operands.len()))),
        }
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        operands[0].elements(counts) as u64
    }
}
