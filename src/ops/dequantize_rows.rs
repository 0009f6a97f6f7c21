//! Integer sums converted back to floats.

use super::{Counts, Operand, Operation, Shape, Shapes};
use crate::Result;
use crate::dtype::DType;

/// `y[m, n] = x[m, n] / (scale[m] weight_scale[n])`: the real values of sums of products of quantised rows and weights.
///
/// Operands: `x [..., N]` (int32), `scale [...]`, `weight_scale [N]`. Result: `[..., N]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DequantizeRows {}

impl Operation for DequantizeRows {
    fn operands(&self) -> &'static [Operand] {
        const X: Operand = Operand::rows("x").stored(DType::I32);
        const { &[X, Operand::rows("scale"), Operand::vector("weight_scale")] }
    }

    fn results(&self) -> &'static [Operand] {
        const { &[Operand::rows("y").stored(DType::F32)] }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let x = &of["x"];
        of.expect("scale", &Shape(x.0[..x.0.len().saturating_sub(1)].to_vec()), "x without its last axis")?;
        of.columns("weight_scale", "x")?;
        Ok(vec![x.clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[0].elements(counts) as u64
    }
}
