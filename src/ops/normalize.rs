//! Division of each row by its Euclidean norm.

use super::definition::{Origin, Term};
use super::{Activation, ActivationKind, BinaryKind, Operand, Operation, Reduce, ReduceKind, Shape, Signature, Vjp};

/// How division by zero is avoided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Floor {
    /// The divisor is `max(||x||, eps)`.
    #[default]
    Max = 0,
    /// The divisor is `||x|| + eps`.
    Add = 1,
}

/// `y = x / max(||x||, eps)` over the last axis, or `x / (||x|| + eps)`. Operands: `x [..., N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Normalize {
    /// Smallest divisor, or the term added to it; default 1e-12, as in sentence-transformers.
    pub eps: f32,
    /// Which of the two forms; default `max`.
    pub floor: Floor,
}

/// Added to the sum of squares where its root is differentiated: its root is small beside the smallest default `eps`.
const LEAST_SQUARES: f32 = 1e-36;

impl Default for Normalize {
    fn default() -> Self {
        Normalize { eps: 1e-12, floor: Floor::Max }
    }
}

impl Operation for Normalize {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 3, 4]], &[0]), (r#"{"floor": "add"}"#, &[&[4]], &[0])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("x")]).flops(3);

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let shape = operands[0];
        let last = shape.0.len().checked_sub(1)?;
        let mut vjp = Vjp::new(1);
        let x = Term::whole(Origin::Operand(0));
        let squares = vjp.binary(BinaryKind::Multiply, x.clone(), x.clone());
        let sum = vjp.step(Reduce::along(last, ReduceKind::Sum), [squares]);
        // The root of 0 has no derivative; that of a row of zeros is multiplied by 0.
        let sum = vjp.by_number(BinaryKind::Add, sum, LEAST_SQUARES);
        let norm = vjp.step(Activation::from(ActivationKind::Sqrt), [sum]);
        let divisor = match self.floor {
            Floor::Max => vjp.at_least(norm, self.eps),
            Floor::Add => vjp.by_number(BinaryKind::Add, norm, self.eps),
        };
        vjp.binary(BinaryKind::Divide, x, divisor.seen(shape.with_columns(1)));
        vjp.chained(operands)
    }
}
