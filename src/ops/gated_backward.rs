//! Gradient of `gated`.

use super::gated::halved;
use super::{Activation, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;

/// `y = [g act(x2), g x1 act'(x2)]`, `x1` and `x2` the halves of the last axis; attributes as [`Activation`].
///
/// Operands: `g [..., N]`, `x [..., 2N]`; the result is `[..., 2N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct GatedBackward(pub Activation);

impl Operation for GatedBackward {
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("g"), Operand::rows("x")]).flops(4);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.expect("g", &halved(of)?, "half of x")?;
        Ok(vec![of["x"].clone()])
    }
}
