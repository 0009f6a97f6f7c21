//! Sum of rows looked up in several embedding tables.

use super::{Counts, Operation, Shape};
use crate::{Error, Result};

/// `y[t] = sum_i table_i[index_i[t]]`, added in the operands' order.
///
/// Operands: `index_0 [T]`, `table_0 [V0, H]`, `index_1 [T]`, `table_1 [V1, H]`, ... Indices are u32 and below
/// the table's rows, which the caller has checked. Result: `[T, H]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EmbeddingSum;

impl Operation for EmbeddingSum {
    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        if operands.is_empty() || !operands.len().is_multiple_of(2) {
            return Err(Error::InvalidArgument(format!(
                "embedding_sum: {} operands, expected pairs of index and table",
                operands.len()
            )));
        }
        let (rows, columns) = (operands[0].rows(), operands[1].columns());
        for pair in operands.chunks_exact(2) {
            if *pair[0] != Shape::vector(rows) {
                return Err(Error::InvalidArgument(format!(
                    "embedding_sum: index has shape {}, expected [{rows}]",
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
        Ok(vec![Shape::matrix(rows, columns)])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        (operands.len() / 2) as u64 * (operands[0].elements(counts) * operands[1].columns()) as u64
    }
}
