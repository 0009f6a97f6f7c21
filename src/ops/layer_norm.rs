//! Layer normalisation over the last axis.

use super::definition::{Origin, Term};
use super::{Binary, BinaryKind, Counts, Operand, Operation, Reduce, ReduceKind, Shape, Shapes, Vjp};
use crate::Result;

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

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.columns("weight", "x")?;
        of.columns("bias", "x")?;
        Ok(vec![of["x"].clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        8 * operands[0].elements(counts) as u64
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let [x, weight, _] = operands else { return None };
        let (rows, columns) = x.as_rows()?;
        let [flat, vector] = [Shape::fixed(&[rows, columns]), (*weight).clone()];
        let mut vjp = Vjp::new(3);
        let [x_term, w_term, g] = [Origin::Operand(0), Origin::Operand(1), Vjp::gradient(3)].map(Term::whole);
        let [x_flat, g_flat] = [x_term, g].map(|term| term.seen(flat.clone()));
        // (x - mean) / d: the norm with a weight of ones and a bias of zeros.
        let (ones, zeros) = (vjp.filled(1.0, vector.clone()), vjp.filled(0.0, vector));
        let unit = vjp.step(LayerNorm { eps: self.eps }, [x_flat.clone(), ones, zeros]);
        let product = vjp.step(Binary::from(BinaryKind::Multiply), [g_flat.clone(), unit]);
        let by_weight = vjp.step(Reduce::rows(ReduceKind::Sum), [product]);
        let by_bias = vjp.step(Reduce::rows(ReduceKind::Sum), [g_flat.clone()]);
        let by_x = vjp.step(LayerNormBackward { eps: self.eps }, [g_flat, x_flat, w_term]);
        vjp.give(0, by_x.seen((*x).clone()));
        vjp.give(1, by_weight);
        vjp.give(2, by_bias);
        Some(vjp)
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

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.same("x", "g")?;
        of.columns("weight", "g")?;
        Ok(vec![of["g"].clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        14 * operands[0].elements(counts) as u64
    }
}
