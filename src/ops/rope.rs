//! Rotary position embedding: pairs of columns rotated by an angle that depends on the row.

use super::{Counts, Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::{Error, Result};

/// Rotates column `d` of a head's first half with column `d` of its second half:
/// `(x1 cos - x2 sin, x2 cos + x1 sin)`.
///
/// Operands: `x [B, S, H, D]`, `cos [S, D/2]` or `[B, S, D/2]`, `sin` likewise; or rows, which a batch may count:
/// `x [T, H, D]`, `cos [T, D/2]`. Result: `x`'s shape.
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

/// The last axes `[H, D]` of the operand `x` of a [`Rope`].
pub fn head_axes(x: &Shape) -> [usize; 2] {
    let heads = x.0.len().checked_sub(2).map_or(1, |place| x.0[place].size(Counts::default()));
    [heads, x.columns()]
}

impl Operation for Rope {
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("x").narrow(), Operand::rows("cos"), Operand::rows("sin")]).flops(3);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let half = of["x"].columns() / 2;
        let angles = match of["x"].0[..] {
            [rows, Dim::Fixed(_), Dim::Fixed(_)] => vec![Shape::matrix(rows, half)],
            _ => {
                let [batch, rows, ..] = heads("rope", &of["x"])?;
                vec![Shape::fixed(&[rows, half]), Shape::fixed(&[batch, rows, half])]
            }
        };
        if of["x"].columns() != 2 * half {
            return Err(of.wrong("x", "an even last axis"));
        }
        if !angles.contains(&of["cos"]) {
            return Err(of.wrong("cos", angles.iter().map(Shape::to_string).collect::<Vec<_>>().join(" or ")));
        }
        of.same("sin", "cos")?;
        Ok(vec![of["x"].clone()])
    }
}
