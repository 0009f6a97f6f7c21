//! Normalisation by the root mean square of the last axis.

use super::definition::{Origin, Term};
use super::{BinaryKind, Operand, Operation, Reduce, ReduceKind, Shape, Signature, Vjp};

/// `y = x / sqrt(mean(x^2) + eps) * weight` over the last axis (Zhang, Sennrich 2019).
///
/// Operands: `x [..., N]`, then optionally `weight [N]`, by default ones.
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
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 3, 4], &[4]], &[0, 1])];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("x").narrow(), Operand::vector("weight").per_column("x").or_filled(1.0)])
            .flops(4);

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let [x, _] = operands else { return None };
        let rows = x.flat()?;
        let mut vjp = Vjp::new(2);
        let [x_flat, g] = [Origin::Operand(0), Vjp::gradient(2)].map(|from| Term::whole(from).seen(rows.clone()));
        let unit = vjp.step(self.clone(), [x_flat.clone()]);
        let product = vjp.binary(BinaryKind::Multiply, g.clone(), unit);
        let by_weight = vjp.step(Reduce::rows(ReduceKind::Sum), [product]);
        vjp.give(1, by_weight);
        let by_x = vjp.step(RmsNormBackward(self.clone()), [g, x_flat, Term::whole(Origin::Operand(1))]);
        vjp.give(0, by_x.seen((*x).clone()));
        Some(vjp)
    }
}

/// The gradient of [`RmsNorm`] in `x`: `(h - u mean(h u)) / d`, where `d` is its divisor, `u = x / d`, `h = g weight`.
///
/// Operands: `g [..., N]`, `x [..., N]`, `weight [N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct RmsNormBackward(pub RmsNorm);

impl Operation for RmsNormBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 3, 4], &[2, 3, 4], &[4]], &[])];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("g"), Operand::rows("x").like("g"), Operand::vector("weight").per_column("g")])
            .flops(9);
}
