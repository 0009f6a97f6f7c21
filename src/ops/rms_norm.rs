//! Normalisation by the root mean square of the last axis.

use super::definition::{Origin, Term};
use super::{Binary, BinaryKind, Counts, Operand, Operation, Reduce, ReduceKind, Shape, Shapes, Vjp};
use crate::Result;

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
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("x").narrow(), Operand::vector("weight")] }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.columns("weight", "x")?;
        Ok(vec![of["x"].clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        4 * operands[0].elements(counts) as u64
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let [x, weight] = operands else { return None };
        let (rows, columns) = x.as_rows()?;
        let [flat, vector] = [Shape::fixed(&[rows, columns]), (*weight).clone()];
        let mut vjp = Vjp::new(2);
        let [x_term, w_term, g] = [Origin::Operand(0), Origin::Operand(1), Vjp::gradient(2)].map(Term::whole);
        let [x_flat, g_flat] = [x_term, g].map(|term| term.seen(flat.clone()));
        // x / d: the norm with a weight of ones.
        let ones = vjp.filled(1.0, vector);
        let unit = vjp.step(RmsNorm { eps: self.eps }, [x_flat.clone(), ones]);
        let product = vjp.step(Binary::from(BinaryKind::Multiply), [g_flat.clone(), unit]);
        let by_weight = vjp.step(Reduce::rows(ReduceKind::Sum), [product]);
        let by_x = vjp.step(RmsNormBackward { eps: self.eps }, [g_flat, x_flat, w_term]);
        vjp.give(0, by_x.seen((*x).clone()));
        vjp.give(1, by_weight);
        Some(vjp)
    }
}

/// The gradient of [`RmsNorm`] in `x`: `(h - u mean(h u)) / d`, where `d` is its divisor, `u = x / d`, `h = g weight`.
///
/// Operands: `g [..., N]`, `x [..., N]`, `weight [N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RmsNormBackward {
    /// As [`RmsNorm::eps`].
    #[serde(default = "default_eps")]
    pub eps: f32,
}

impl Operation for RmsNormBackward {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("g"), Operand::rows("x"), Operand::vector("weight")] }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.same("x", "g")?;
        of.columns("weight", "g")?;
        Ok(vec![of["g"].clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        9 * operands[0].elements(counts) as u64
    }
}
