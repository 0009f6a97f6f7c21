//! Rows written into a table.

use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// Replaces row `index[i]` of `table` by row `i` of `x`; other rows are unchanged. The indices are distinct.
///
/// Operands: `table [N, D]`, `x [T, D]`, `index [T]`. Result: `table`, updated in place.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRows {}

const TABLE: Operand = Operand::rows("table").stored(DType::F32);

impl Operation for SetRows {
    const SIGNATURE: Signature =
        Signature::of(&[TABLE, Operand::rows("x"), Operand::index("index", "table")]).gives(&[TABLE]).flops(0);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let [_, columns] = of.axes("table")?[..] else { return Err(of.wrong("table", "[rows, columns]")) };
        if of["index"].0.len() != 1 {
            return Err(of.wrong("index", "one axis"));
        }
        of.expect("x", &Shape::matrix(of["index"].rows(), columns), "index, columns of table")?;
        Ok(vec![of["table"].clone()])
    }
}
