//! Layer normalisation over the last axis.

use super::{Operand, Operation, Shape, Signature, Vjp};

/// `y = (x - mean) / sqrt(var + eps) * weight + bias`, mean and biased variance over the last axis, in two passes
/// (Ba, Kiros, Hinton 2016).
///
/// Operands: `x [M, N]`, `weight [N]`, `bias [N]`. Result: `[M, N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerNorm {
    /// Added to the variance; default 1e-5.
    #[serde(default = "default_eps")]
    pub eps: f32,
}

fn default_eps() -> f32 {
    1e-5
}

impl Operation for LayerNorm {
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("x").narrow(),
        Operand::vector("weight").per_column("x"),
        Operand::vector("bias").per_column("x"),
    ])
    .flops(8);

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        Vjp::of_norm(operands, self.clone(), LayerNormBackward(self.clone()))
    }
}

/// The gradient of [`LayerNorm`] in `x`: `(h - mean(h) - u mean(h u)) / d`, where `d` is its divisor,
/// `u = (x - mean(x)) / d` and `h = g weight`.
///
/// Operands: `g [..., N]`, `x [..., N]`, `weight [N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct LayerNormBackward(pub LayerNorm);

impl Operation for LayerNormBackward {
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("g"), Operand::rows("x").like("g"), Operand::vector("weight").per_column("g")])
            .flops(14);
}
