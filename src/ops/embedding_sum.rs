//! Sum of rows looked up in several embedding tables.

use super::{Counts, Dim, Operand, Operation, Shape};
use crate::{Error, Result};

/// `y[t] = sum_i table_i[index_i[t]]`, added in the operands' order.
///
/// Operands: `index_0 [...]`, `table_0 [V0, H]`, `index_1 [...]`, `table_1 [V1, H]`, ... Indices are u32 and below
/// the table's rows, which the caller has checked; all have one shape. Result: `[..., H]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingSum {}

impl Operation for EmbeddingSum {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::index("index", "table"), Operand::matrix("table")] }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        if operands.is_empty() || !operands.len().is_multiple_of(2) {
            return Err(Error::InvalidArgument(format!(
                "embedding_sum: {} operands, expected pairs of index and table",
                operands.len()
            )));
        }
        let (ids, columns) = (operands[0], operands[1].columns());
        for pair in operands.chunks_exact(2) {
            if pair[0] != ids {
                return Err(Error::InvalidArgument(format!(
                    "embedding_sum: index has shape {}, expected {ids}",
                    pair[0]
                )));
            }
            if pair[1].columns() != columns || pair[1].0.len() != 2 {
                return Err(Error::InvalidArgument(format!(
                    "embedding_sum: table has shape {}, expected [rows, {columns}]",
                    pair[1]
                )));
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
