//! Layer normalisation of a sum.

use super::definition::{self, LAYER_NORM, Origin, SUM, Sought, Step};
use super::{Binary, BinaryKind, LayerNorm, Operand, Operation, Shape, Signature};
use crate::Result;

/// `y = layer_norm(x + residual)`; attributes as [`LayerNorm`].
///
/// Operands: `x [..., N]`, `residual [..., N]`, `weight [N]`, `bias [N]`. Result: `x`'s shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct ResidualLayerNorm(pub LayerNorm);

impl Operation for ResidualLayerNorm {
    const EVERYWHERE: super::Coverage = super::Coverage::Steps;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[40, 64], &[40, 64], &[64], &[64]], &[0, 1, 2, 3])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("x").narrow(),
        Operand::rows("residual").narrow().like("x"),
        Operand::vector("weight"),
        Operand::vector("bias"),
    ]);

    fn definition(&self, _operands: &[&Shape]) -> Result<Vec<Step>> {
        let sum = Step::new(Binary::from(BinaryKind::Add), &definition::given(0..2));
        Ok(vec![sum, Step::new(self.0.clone(), &[Origin::Step(0), Origin::Operand(2), Origin::Operand(3)])])
    }

    fn sought() -> Option<Sought> {
        Some(Sought {
            pass: "residual_layer_norm",
            priority: 20,
            tree: LAYER_NORM.of(&[SUM]),
            op: |ops| LayerNorm::of(ops[1]).map(|norm| ResidualLayerNorm(norm.clone()).into()),
        })
    }
}
