//! Gradient of `gated`.

use super::gated::halved;
use super::{Activation, Counts, Operand, Operation, Shape, Shapes};
use crate::Result;

/// `y = [g act(x2), g x1 act'(x2)]`, `x1` and `x2` the halves of the last axis; attributes as [`Activation`].
///
/// Operands: `g [..., N]`, `x [..., 2N]`; the result is `[..., 2N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct GatedBackward(pub Activation);

impl Operation for GatedBackward {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("g"), Operand::rows("x")] }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.expect("g", &halved(of)?, "half of x")?;
        Ok(vec![of["x"].clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[1].elements(counts) as u64
    }
}
