//! Rotary position embedding: pairs of columns rotated by an angle that depends on the row.

use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::{Error, Result};

/// Rotates column `d` of a head's first half with column `d` of its second half:
/// `(x1 cos - x2 sin, x2 cos + x1 sin)`.
///
/// Operands: `x [B, S, H, D]`, `cos [S, D/2]` or `[B, S, D/2]`, `sin` likewise. Result: `x`'s shape.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rope {}

/// The axes `[B, S, H, D]` of the operand `x` of an op.
///
/// # Errors
/// `InvalidArgument` naming the op.
pub fn heads(op: &str, x: &Shape) -> Result<[usize; 4]> {
    let wrong = |_| Error::InvalidArgument(format!("{op}: x has shape {x}, expected [B, S, H, D]"));
    x.fixed_axes(op, "x")?.try_into().map_err(wrong)
}

impl Operation for Rope {
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("x").narrow(), Operand::rows("cos"), Operand::rows("sin")]).flops(3);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let [batch, rows, _, columns] = heads("rope", &of["x"])?;
        if columns % 2 != 0 {
            return Err(of.wrong("x", "an even last axis"));
        }
        let shared = Shape::fixed(&[rows, columns / 2]);
        let each = Shape::fixed(&[batch, rows, columns / 2]);
        if of["cos"] != shared && of["cos"] != each {
            return Err(of.wrong("cos", format!("{shared} or {each}")));
        }
        of.same("sin", "cos")?;
        Ok(vec![of["x"].clone()])
    }
}
