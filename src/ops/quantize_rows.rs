//! Rows rounded to 8-bit integers.

use super::{Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// `scale[m] = 127 / max(max_k |x[m, k]|, 1e-5)`, `q[m, k] = clamp(round(x[m, k] scale[m]), -128, 127)`, ties to even: symmetric
/// quantisation by the largest element of a row (Wang et al. 2023, BitNet). `x` is finite.
///
/// Operands: `x [..., K]`. Results: `q [..., K]` (int8), `scale [...]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuantizeRows {}

impl Operation for QuantizeRows {
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("x")])
        .gives(&[Operand::rows("q").stored(DType::I8), Operand::rows("scale").stored(DType::F32)])
        .flops(3);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let x = &of["x"];
        let Some((Dim::Fixed(_), rows)) = x.0.split_last() else { return Err(of.wrong("x", "[..., K]")) };
        Ok(vec![x.clone(), Shape(rows.to_vec())])
    }
}
