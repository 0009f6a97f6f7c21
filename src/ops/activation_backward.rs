//! Gradients of elementwise nonlinearities.

use super::{Activation, Counts, Operand, Operation, Shape};

/// `y = g act'(x)`, elementwise, with `relu'(0) = 0`; attributes as [`Activation`]. Operands: `g`, `x`, of equal shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct ActivationBackward(pub Activation);

impl Operation for ActivationBackward {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("g"), Operand::rows("x").like("g")] }
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[0].elements(counts) as u64
    }
}
