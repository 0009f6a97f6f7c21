//! Sum of rows looked up in several embedding tables.

use super::{Counts, Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;

/// `y[t] = sum_i table_i[index_i[t]]`, added in the operands' order.
///
/// Operands: `index_0 [...]`, `table_0 [V0, H]`, `index_1 [...]`, `table_1 [V1, H]`, ... Indices are u32 and less than
/// the number of rows of their table, which the caller has checked; all have the same shape. Result: `[..., H]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingSum {}

impl Operation for EmbeddingSum {
    const SIGNATURE: Signature =
        Signature::of(&[Operand::index("index", "table"), Operand::table("table")]).in_groups();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let (ids, columns) = (&of["index"], of["table"].columns());
        for pair in of.all().chunks_exact(2) {
            if pair[0] != ids {
                return Err(of.fault(format!("index has shape {}, expected {ids}", pair[0])));
            }
            if pair[1].columns() != columns || pair[1].0.len() != 2 {
                return Err(of.fault(format!("table has shape {}, expected [rows, {columns}]", pair[1])));
            }
        }
        let mut result = ids.clone();
        result.0.push(Dim::Fixed(columns));
        Ok(vec![result])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        (operands.len() / 2) as u64 * (operands[0].elements(counts) * operands[1].columns()) as u64
    }
}
