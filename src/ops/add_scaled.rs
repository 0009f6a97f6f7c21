//! A multiple of an array, added to another in place.

use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// `total = total + factor x`, elementwise.
///
/// Operands: `total`, `x`, of equal shape, and `factor []`. Result: `total`, updated in place.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddScaled {}

const TOTAL: Operand = Operand::rows("total").stored(DType::F32);

impl Operation for AddScaled {
    const NO_DERIVATIVE: Option<&'static str> = Some("it updates a total");
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[3, 4], &[3, 4], &[]], &[])];
    const SIGNATURE: Signature =
        Signature::of(&[TOTAL, Operand::rows("x").like("total"), Operand::scalar("factor")]).gives(&[TOTAL]).flops(2);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.expect("factor", &Shape::fixed(&[]), "one number")?;
        Ok(vec![of["total"].clone()])
    }
}
