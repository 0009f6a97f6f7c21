//! Gradients of elementwise nonlinearities.

use super::{Activation, Counts, Operand, Operation, Shape};
use crate::{Error, Result};

/// `y = g act'(x)`, elementwise, `relu'(0) = 0`; attributes as [`Activation`]. Operands: `g`, `x`, of one shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct ActivationBackward(pub Activation);

impl Operation for ActivationBackward {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("g"), Operand::rows("x")] }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        match operands {
            [g, x] if g == x => Ok(vec![(*g).clone()]),
            [g, x] => Err(Error::InvalidArgument(format!("activation_backward: x has shape {x}, expected {g} (g)"))),
            _ => Err(Error::InvalidArgument(format!("activation_backward: {} operands, expected 2", operands.len()))),
        }
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[0].elements(counts) as u64
    }
}
