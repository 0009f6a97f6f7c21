//! Normalisation of a sum by its root mean square.

use super::definition::{self, Origin, Step};
use super::{Binary, BinaryKind, Counts, Operand, Operation, RmsNorm, Shape, Shapes};
use crate::Result;

/// `y = rms_norm(x + residual)`; attributes as [`RmsNorm`].
///
/// Operands: `x [..., N]`, `residual [..., N]`, `weight [N]`. Result: `x`'s shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct ResidualRmsNorm(pub RmsNorm);

impl Operation for ResidualRmsNorm {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("x").narrow(), Operand::rows("residual").narrow(), Operand::vector("weight")] }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.same("residual", "x")?;
        definition::infer(self, of)
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        definition::flops(self, operands, counts)
    }

    fn definition(&self, _operands: &[&Shape]) -> Result<Vec<Step>> {
        let sum = Step::new(Binary::from(BinaryKind::Add), &definition::given(0..2));
        Ok(vec![sum, Step::new(self.0.clone(), &[Origin::Step(0), Origin::Operand(2)])])
    }
}
