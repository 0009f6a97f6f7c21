//! Rotary position embedding: pairs of columns rotated by an angle that depends on the row.

use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;

/// Rotates column `d` of a head's first half with column `d` of its second half:
/// `(x1 cos - x2 sin, x2 cos + x1 sin)`.
///
/// Operands: `x [B, S, H, D]`, `cos [S, D/2]` or `[B, S, D/2]`, `sin` likewise. Result: `x`'s shape.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rope {}

impl Operation for Rope {
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("x").narrow(), Operand::rows("cos"), Operand::rows("sin")]).flops(3);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let [batch, rows, _, columns] = of.axes("x")?[..] else { return Err(of.wrong("x", "[B, S, H, D]")) };
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
