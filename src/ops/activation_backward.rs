//! Gradients of elementwise nonlinearities.

use super::{Activation, Operand, Operation, Signature};

/// `y = g act'(x)`, elementwise, with `relu'(0) = 0`; attributes as [`Activation`]. Operands: `g`, `x`, of equal shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct ActivationBackward(pub Activation);

impl Operation for ActivationBackward {
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("g"), Operand::rows("x").like("g")]).flops(2);
}
