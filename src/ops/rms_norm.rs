//! Normalisation by the root mean square of the last axis.

use super::{Operand, Operation, Shape, Signature, Vjp};

/// `y = x / sqrt(mean(x^2) + eps) * weight` over the last axis (Zhang, Sennrich 2019).
///
/// Operands: `x [..., N]`, `weight [N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RmsNorm {
    /// Added to the mean; default 1e-6.
    #[serde(default = "default_eps")]
    pub eps: f32,
}

fn default_eps() -> f32 {
    1e-6
}

impl Operation for RmsNorm {
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("x").narrow(), Operand::vector("weight").per_column("x")]).flops(4);

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        Vjp::of_norm(operands, self.clone(), RmsNormBackward(self.clone()))
    }
}

/// The gradient of [`RmsNorm`] in `x`: `(h - u mean(h u)) / d`, where `d` is its divisor, `u = x / d`, `h = g weight`.
///
/// Operands: `g [..., N]`, `x [..., N]`, `weight [N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct RmsNormBackward(pub RmsNorm);

impl Operation for RmsNormBackward {
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("g"), Operand::rows("x").like("g"), Operand::vector("weight").per_column("g")])
            .flops(9);
}
