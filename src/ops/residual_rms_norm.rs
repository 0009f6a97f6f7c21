//! Normalisation of a sum by its root mean square.

use super::definition::{self, Origin, RMS_NORM, SUM, Sought, Step};
use super::{Binary, BinaryKind, Operand, Operation, RmsNorm, Shape, Signature};
use crate::Result;

/// `y = rms_norm(x + residual)`; attributes as [`RmsNorm`].
///
/// Operands: `x [..., N]`, `residual [..., N]`, `weight [N]`. Result: `x`'s shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct ResidualRmsNorm(pub RmsNorm);

impl Operation for ResidualRmsNorm {
    const EVERYWHERE: super::Coverage = super::Coverage::Steps;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[40, 64], &[40, 64], &[64]], &[0, 1, 2])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("x").narrow(),
        Operand::rows("residual").narrow().like("x"),
        Operand::vector("weight"),
    ]);

    fn definition(&self, _operands: &[&Shape]) -> Result<Vec<Step>> {
        let sum = Step::new(Binary::from(BinaryKind::Add), &definition::given(0..2));
        Ok(vec![sum, Step::new(self.0.clone(), &[Origin::Step(0), Origin::Operand(2)])])
    }

    fn sought() -> Option<Sought> {
        Some(Sought {
            pass: "residual_rms_norm",
            priority: 20,
            tree: RMS_NORM.of(&[SUM]),
            op: |ops| RmsNorm::of(ops[1]).map(|norm| ResidualRmsNorm(norm.clone()).into()),
        })
    }
}
