//! Weighted sums of a few rows each.

use super::{Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;

/// `y[t] = sum_r weight[t, r] x[t, r] + bias`, `r` in order from zero.
///
/// Operands: `x [T, k, N]`, `weight [T, k]`, then `bias [N]` if `bias`. Result: `[T, N]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WeightedSum {
    /// Whether there is a bias operand.
    pub bias: bool,
}

impl Operation for WeightedSum {
    fn signature(&self) -> Signature {
        const ALL: &[Operand] = &[
            Operand::rows("x").narrow(),
            Operand::rows("weight"),
            Operand::vector("bias").per_column("x").by_attribute(),
        ];
        Signature::of(if self.bias { ALL } else { &ALL[..2] }).flops(2)
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let [rows, Dim::Fixed(each), Dim::Fixed(columns)] = of["x"].0[..] else {
            return Err(of.wrong("x", "[rows, rows of a sum, columns]"));
        };
        of.expect("weight", &Shape::matrix(rows, each), "x without its last axis")?;
        Ok(vec![Shape::matrix(rows, columns)])
    }
}
