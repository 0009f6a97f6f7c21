//! Integers converted back to floats.

use super::levels::{Levels, Scope};
use super::vjp::Vjp;
use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// `y[m, k] = (x[m, k] - zero) / scale`, the inverse of `quantize_rows` but for its rounding; a NaN among the scales makes
/// all that shares it NaN.
///
/// Operands: `x [..., K]` (int8), or packed `[..., ceil(K / 4)]` and `[..., ceil(K / 8)]` (uint8); `scale`, of the shape
/// that `scope` gives it; with `zero`, `zero` (int32), of the same shape. Result: `[..., K]`. The gradient of `x` is that
/// of the result, as in `quantize_rows`; packed integers have none.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DequantizeRows {
    /// The values of `x`.
    pub levels: Levels,
    /// What shares a scale.
    pub scope: Scope,
    /// Columns of the result, where `x` is packed.
    pub columns: Option<usize>,
    /// Whether there is an operand `zero`.
    pub zero: bool,
}

impl Operation for DequantizeRows {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] =
        &[("{}", &[&[2, 3, 4], &[2, 3]], &[0]), (r#"{"zero": true}"#, &[], &[])];
    fn signature(&self) -> Signature {
        const BYTES: Operand = Operand::rows("x").stored(DType::I8);
        const PACKED: Operand = Operand::rows("x").stored(DType::U8);
        const SCALE: Operand = Operand::rows("scale");
        const ZERO: Operand = Operand::rows("zero").stored(DType::I32).by_attribute();
        const Y: Operand = Operand::rows("y").stored(DType::F32);
        Signature::of(match (self.levels, self.zero) {
            (Levels::Int8, false) => &[BYTES, SCALE],
            (Levels::Int8, true) => &[BYTES, SCALE, ZERO],
            (_, false) => &[PACKED, SCALE],
            (_, true) => &[PACKED, SCALE, ZERO],
        })
        .gives(&[Y])
        .flops(2)
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let x = &of["x"];
        if x.0.is_empty() {
            return Err(of.wrong("x", "[..., K]"));
        }
        let columns = match (self.levels, self.columns) {
            (Levels::Int8, None) => x.columns(),
            (levels, Some(columns)) if levels.bytes(columns) == x.columns() => columns,
            (levels, Some(columns)) => {
                let bytes = levels.bytes(columns);
                return Err(of.wrong("x", format!("last axis {bytes}, the bytes of {columns} columns")));
            }
            (levels, None) => {
                return Err(of.fault(format!("columns is missing, the number of them in packed {levels:?}")));
            }
        };
        let scale = self.scope.scales(x, columns);
        let why = format!("the scales of {:?} of {columns} columns", self.scope);
        of.expect("scale", &scale, &why)?;
        of.expect("zero", &scale, &why)?;
        Ok(vec![x.with_columns(columns)])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        (self.levels == Levels::Int8).then(|| Vjp::passed(operands.len()))
    }
}
