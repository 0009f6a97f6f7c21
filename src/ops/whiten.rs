//! Columns with mean 0 and standard deviation 1.

use super::definition::{Origin, Step};
use super::{Binary, BinaryKind, Operand, Operation, Shape, Signature};
use crate::Result;

/// `y = (x - mean) / (deviation + eps)`.
///
/// Operands: `x`, then `mean` and `deviation`, which broadcast to it, then optionally `eps`, by default 1e-8. Result: `x`'s
/// shape.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whiten {}

impl Operation for Whiten {
    const EVERYWHERE: super::Coverage = super::Coverage::Steps;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 3, 4], &[3, 4], &[3, 4], &[]], &[0, 1, 2, 3])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("x"),
        Operand::rows("mean"),
        Operand::rows("deviation"),
        Operand::scalar("eps").or_filled(1e-8),
    ]);

    fn definition(&self, _: &[&Shape]) -> Result<Vec<Step>> {
        let [x, mean, deviation, eps] = [0, 1, 2, 3].map(Origin::Operand);
        Ok(vec![
            Step::new(Binary::from(BinaryKind::Add), &[deviation, eps]),
            Step::new(Binary::from(BinaryKind::Subtract), &[x, mean]),
            Step::new(Binary::from(BinaryKind::Divide), &[Origin::Step(1), Origin::Step(0)]),
        ])
    }
}
