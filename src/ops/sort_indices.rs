//! Indices sorted into buckets.

use super::signature::Role;
use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// `order` lists the places of `index` sorted by index, those of one index in ascending order; those of index `v` are
/// `order[starts[v] .. starts[v + 1]]`. Places of indices outside `0 .. rows` come last, and belong to no bucket.
///
/// Operands: `index [T]`. Results: `order [T]` (int32), `starts [rows + 1]` (int32), as `embedding_backward` reads them.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SortIndices {
    /// Number of buckets.
    pub rows: usize,
}

impl Operation for SortIndices {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::INTEGERS);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"rows": 1}"#, &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[Operand::new("index", Role::Key)]).gives(&[
        Operand::index("order", "index").stored(DType::I32),
        Operand::offsets("starts", "order").stored(DType::I32),
    ]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let index = &of["index"];
        if index.0.len() != 1 {
            return Err(of.wrong("index", "one axis"));
        }
        if self.rows >= u32::MAX as usize {
            return Err(of.fault(format!("rows is {}, expected less than 2^32 - 1", self.rows)));
        }
        Ok(vec![index.clone(), Shape::fixed(&[self.rows + 1])])
    }

    // Places are those of the whole batch.
    fn is_separable(&self, _: &[&Shape]) -> bool {
        false
    }
}
