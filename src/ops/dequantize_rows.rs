//! Integer sums converted back to floats.

use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// `y[m, n] = x[m, n] / (scale[m] weight_scale[n])`: the real values of sums of products of quantised rows and weights.
///
/// Operands: `x [..., N]` (int32), `scale [...]`, `weight_scale [N]`. Result: `[..., N]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DequantizeRows {}

impl Operation for DequantizeRows {
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("x").stored(DType::I32),
        Operand::rows("scale"),
        Operand::vector("weight_scale").per_column("x"),
    ])
    .gives(&[Operand::rows("y").stored(DType::F32)])
    .flops(2);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let x = &of["x"];
        of.expect("scale", &Shape(x.0[..x.0.len().saturating_sub(1)].to_vec()), "x without its last axis")?;
        Ok(vec![x.clone()])
    }
}
