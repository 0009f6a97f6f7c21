//! Gradient of `gated`.

use super::gated::halved;
use super::{Activation, Counts, Operand, Operation, Shape};
use crate::{Error, Result};

/// `y = [g act(x2), g x1 act'(x2)]`, `x1` and `x2` the halves of the last axis; attributes as [`Activation`].
///
/// Operands: `g [..., N]`, `x [..., 2N]`; the result is `[..., 2N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct GatedBackward(pub Activation);

impl Operation for GatedBackward {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("g"), Operand::rows("x")] }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let [g, x] = operands else {
            return Err(Error::InvalidArgument(format!("gated_backward: {} operands, expected 2", operands.len())));
        };
        let expected = halved("gated_backward", x)?;
        if **g != expected {
            return Err(Error::InvalidArgument(format!(
                "gated_backward: g has shape {g}, expected {expected} (x {x})"
            )));
        }
        Ok(vec![(*x).clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[1].elements(counts) as u64
    }
}
