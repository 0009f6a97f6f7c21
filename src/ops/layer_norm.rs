//! Layer normalisation over the last axis.

use super::{Counts, Operand, Operation, Shape, expect};
use crate::{Error, Result};

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
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("x").narrow(), Operand::vector("weight"), Operand::vector("bias")] }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let [x, weight, bias] = operands else {
            return Err(Error::InvalidArgument(format!("layer_norm: {} operands, expected 3", operands.len())));
        };
        let expected = Shape::fixed(&[x.columns()]);
        for (name, shape) in [("weight", weight), ("bias", bias)] {
            expect("layer_norm", name, shape, &expected, "last axis of x")?;
        }
        Ok(vec![(*x).clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        8 * operands[0].elements(counts) as u64
    }
}

/// The gradient of [`LayerNorm`] in `x`: `(h - mean(h) - u mean(h u)) / d`, where `d` is its divisor,
/// `u = (x - mean(x)) / d` and `h = g weight`.
///
/// Operands: `g [..., N]`, `x [..., N]`, `weight [N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayerNormBackward {
    /// As [`LayerNorm::eps`].
    #[serde(default = "default_eps")]
    pub eps: f32,
}

impl Operation for LayerNormBackward {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("g"), Operand::rows("x"), Operand::vector("weight")] }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let [g, x, weight] = operands else {
            return Err(Error::InvalidArgument(format!(
                "layer_norm_backward: {} operands, expected 3",
                operands.len()
            )));
        };
        expect("layer_norm_backward", "x", x, g, "that of g")?;
        expect("layer_norm_backward", "weight", weight, &Shape::fixed(&[g.columns()]), "last axis of g")?;
        Ok(vec![(*g).clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        14 * operands[0].elements(counts) as u64
    }
}
