//! Layer normalisation over the last axis.

use super::definition::{Origin, Term};
use super::{Dim, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;

/// `y = (x - mean) / sqrt(var + eps) * weight + bias`, mean and biased variance over the last axis, in two passes
/// (Ba, Kiros, Hinton 2016).
///
/// Operands: `x [..., N]`, then optionally `weight [N]`, by default ones, and `bias [N]`, by default zeros. Result: `x`'s
/// shape.
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
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 3, 4], &[4], &[4]], &[0, 1, 2])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("x").narrow(),
        Operand::vector("weight").per_column("x").or_filled(1.0),
        Operand::vector("bias").per_column("x").or_filled(0.0),
    ])
    .flops(8);

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let [x, _, _] = operands else { return None };
        let rows = x.flat()?;
        let mut vjp = Vjp::new(operands.len());
        let [x_flat, g] =
            [Origin::Operand(0), Vjp::gradient(operands.len())].map(|from| Term::whole(from).seen(rows.clone()));
        let [by_weight, by_bias] = vjp.results_of(LayerNormWeightBackward(self.clone()), [g.clone(), x_flat.clone()]);
        let by_x = vjp.step(LayerNormBackward(self.clone()), [g, x_flat, Term::whole(Origin::Operand(1))]);
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
pub struct LayerNormBackward(pub LayerNorm);

impl Operation for LayerNormBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 3, 4], &[2, 3, 4], &[4]], &[])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("g").narrow(),
        Operand::rows("x").narrow().like("g"),
        Operand::vector("weight").per_column("g"),
    ])
    .flops(14);
}

/// The gradients of [`LayerNorm`] in its weight and its bias: the sums over the rows of `g u` and of `g`, with
/// `u = (x - mean(x)) / d` and `d` its divisor.
///
/// Operands: `g [..., N]`, `x [..., N]`. Results: `by_weight [N]`, `by_bias [N]`. Rows are added in blocks of
/// [`LayerNormWeightBackward::ROWS`], and these in order. A program may count the rows.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct LayerNormWeightBackward(pub LayerNorm);

impl LayerNormWeightBackward {
    /// Rows per block.
    pub const ROWS: usize = 64;
}

impl Operation for LayerNormWeightBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("g").narrow(), Operand::rows("x").narrow().like("g")])
        .gives(&[Operand::vector("by_weight").stored(DType::F32), Operand::vector("by_bias").stored(DType::F32)])
        .scratch(&["moments", "partial"])
        .flops(9)
        .sized();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let Some(Dim::Fixed(columns)) = of["x"].0.last() else { return Err(of.wrong("x", "[..., columns]")) };
        Ok(vec![Shape::fixed(&[*columns]); 2])
    }

    /// The mean of each row and the inverse of its divisor; both sums of each block.
    fn scratch(&self, operands: &[&Shape], _: DType) -> Vec<Shape> {
        let Some((rows, columns)) = operands[1].as_rows() else { return Vec::new() };
        vec![operands[1].with_columns(2), Shape::fixed(&[rows.div_ceil(Self::ROWS).max(1), 2, columns])]
    }
}
