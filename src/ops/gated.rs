//! Rows of which one half gates the other.

use super::{Activation, Dim, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;

/// `y = x1 act(x2)`, `x1` and `x2` the halves of the last axis; attributes as [`Activation`].
///
/// Operands: `x [..., 2N]`; the result is `[..., N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct Gated(pub Activation);

/// The shape of `x` with half the last axis.
///
/// # Errors
/// `InvalidArgument` when the last axis is not fixed and even.
fn halved(of: &Shapes<'_>) -> Result<Shape> {
    match of["x"].0.last() {
        Some(Dim::Fixed(columns)) if columns % 2 == 0 => Ok(of["x"].with_columns(columns / 2)),
        _ => Err(of.wrong("x", "an even last axis")),
    }
}

impl Operation for Gated {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"kind": "silu"}"#, &[&[2, 3, 4]], &[0])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("x").narrow()]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        Ok(vec![halved(of)?])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        Vjp::single(operands.len(), GatedBackward(self.0.clone()), 0..1)
    }
}

/// `y = [g act(x2), g x1 act'(x2)]`, `x1` and `x2` the halves of the last axis; attributes as [`Activation`].
///
/// Operands: `g [..., N]`, `x [..., 2N]`; the result is `[..., 2N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct GatedBackward(pub Activation);

impl Operation for GatedBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"kind": "silu"}"#, &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("g"), Operand::rows("x")]).flops(4);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.expect("g", &halved(of)?, "half of x")?;
        Ok(vec![of["x"].clone()])
    }
}
