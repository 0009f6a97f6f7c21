//! Sums of the largest elements of parts of rows.

use super::{Counts, Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;

/// `y[i, j] = sum_t max_u x[t, u]`, over the rows `t` of part `i` and the columns `u` of part `j`: rows
/// `row_starts[i] .. row_starts[i + 1]`, and so on. -1e9 for a part without columns, else 0 for one without rows. NaN where an
/// element is.
///
/// Operands: `x [T, U]`, `row_starts [Q + 1]`, `column_starts [N + 1]`. Result: `[Q, N]`. The sum runs over the rows of a part from
/// its first.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MaxSum {}

impl Operation for MaxSum {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::CHOICE);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("x"),
        Operand::offsets_of_all("row_starts", "x"),
        Operand::offsets_of_columns("column_starts", "x"),
    ])
    .sized();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        if of["x"].0.len() != 2 {
            return Err(of.wrong("x", "[T, U]"));
        }
        parts(of, ["row_starts", "column_starts"])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        operands[0].elements(counts) as u64
    }
}

/// The shape of a result with an element for each part of rows and of columns, whose bounds have these names.
///
/// # Errors
/// `InvalidArgument` for bounds that have not one axis, or no element.
pub(super) fn parts(of: &Shapes<'_>, bounds: [&str; 2]) -> Result<Vec<Shape>> {
    let mut sizes = Vec::new();
    for name in bounds {
        match of[name].0[..] {
            [Dim::Fixed(starts)] if starts > 0 => sizes.push(starts - 1),
            _ => return Err(of.wrong(name, "one axis, a number more than there are texts")),
        }
    }
    Ok(vec![Shape::fixed(&sizes)])
}
