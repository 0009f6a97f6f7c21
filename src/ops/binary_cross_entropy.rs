//! Cross entropy of probabilities.

use super::{Counts, Operand, Operation, Shape};
use crate::{Error, Result};

/// `y = -(t max(log p, -100) + (1 - t) max(log(1 - p), -100))`, elementwise. Operands: `p`, `t`, of one shape.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinaryCrossEntropy {}

impl Operation for BinaryCrossEntropy {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("p"), Operand::rows("t")] }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        match operands {
            [p, t] if p == t => Ok(vec![(*p).clone()]),
            [p, t] => Err(Error::InvalidArgument(format!("binary_cross_entropy: t has shape {t}, expected {p} (p)"))),
            _ => Err(Error::InvalidArgument(format!("binary_cross_entropy: {} operands, expected 2", operands.len()))),
        }
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        5 * operands[0].elements(counts) as u64
    }
}
