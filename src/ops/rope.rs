//! Rotary position embedding: pairs of columns rotated by an angle that depends on the row.

use super::definition::{Origin, Term};
use super::{BinaryKind, Counts, Dim, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::{Error, Result};

/// Rotates column `d` of a head's first half with column `d` of its second half:
/// `(x1 cos - x2 sin, x2 cos + x1 sin)`.
///
/// Operands: `x [B, S, H, D]`, `cos [S, D/2]` or `[B, S, D/2]`, `sin` likewise; result: `x`'s shape. Or rows, which a batch
/// may count: `x [T, H, D]`, `cos [T, R/2]`, where columns from `R` on are copied; result: `[T, heads, D]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rope {
    /// With rows: the number of heads that the result has, the leading ones of `x`, or those of `x` and then zeros; default
    /// those of `x`.
    pub heads: Option<usize>,
}

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
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 5, 3, 4], &[5, 2], &[5, 2]], &[0])];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("x").narrow(), Operand::rows("cos"), Operand::rows("sin")]).flops(3);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let (mut result, half) = (of["x"].clone(), of["x"].columns() / 2);
        if of["x"].columns() != 2 * half {
            return Err(of.wrong("x", "an even last axis"));
        }
        match (&result.0[..], &of["cos"].0[..]) {
            (&[rows, Dim::Fixed(all), Dim::Fixed(_)], found) => {
                if !matches!(found, [first, Dim::Fixed(turned)] if *first == rows && *turned <= half) {
                    return Err(of.wrong("cos", format!("[{rows}, at most {half}]")));
                }
                result.0[1] = Dim::Fixed(self.heads.unwrap_or(all));
            }
            _ => {
                let [batch, rows, ..] = heads("rope", &of["x"])?;
                let angles = [Shape::fixed(&[rows, half]), Shape::fixed(&[batch, rows, half])];
                if !angles.contains(&of["cos"]) {
                    return Err(of.wrong("cos", format!("{} or {}", angles[0], angles[1])));
                }
                if self.heads.is_some() {
                    return Err(of.fault("heads is for x [T, H, D] alone"));
                }
            }
        }
        of.same("sin", "cos")?;
        Ok(vec![result])
    }

    /// The rotation by the opposite angles, to as many heads as `x` has.
    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let opposite_of = Rope { heads: self.heads.map(|_| head_axes(operands[0])[0]) };
        let mut vjp = Vjp::new(3);
        let [cos, sin] = [1, 2].map(|place| Term::whole(Origin::Operand(place)));
        let opposite = vjp.by_number(BinaryKind::Multiply, sin, -1.0);
        let by_x = vjp.step(opposite_of, [Term::whole(Vjp::gradient(3)), cos, opposite]);
        vjp.give(0, by_x);
        Some(vjp)
    }
}
