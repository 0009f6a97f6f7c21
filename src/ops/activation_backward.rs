//! Gradients of elementwise nonlinearities.

use super::{Activation, Counts, Operand, Operation, Shape, Shapes};
use crate::Result;

/// `y = g act'(x)`, elementwise, with `relu'(0) = 0`; attributes as [`Activation`]. Operands: `g`, `x`, of equal shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct ActivationBackward(pub Activation);

impl Operation for ActivationBackward {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("g"), Operand::rows("x")] }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.same("x", "g")?;
        Ok(vec![of["g"].clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[0].elements(counts) as u64
    }
}
