//! Mean and covariance of the rows of two sets together.

use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// Mean and covariance of two sets of rows together (Chan et al. 1979), the second of which has a `share` of all rows:
///
/// `covariance = (1 - share) covariance + share (other + (1 - share) d d^T)`, `mean = mean + share d`
///
/// Operands: `mean [K]`, `covariance [K, K]`, `difference [K]`, which is `d`, the second mean less the first, `other [K, K]`, the
/// second covariance, and `share []`. Results: `mean` and `covariance`, updated in place.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CombineMoments {}

pub(super) const MOMENTS: [Operand; 2] =
    [Operand::rows("mean").stored(DType::F32), Operand::rows("covariance").stored(DType::F32)];

impl Operation for CombineMoments {
    const NO_DERIVATIVE: Option<&'static str> = Some("it updates moments");
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[4], &[4, 4], &[4], &[4, 4], &[]], &[])];
    const SIGNATURE: Signature = Signature::of(&[
        MOMENTS[0],
        MOMENTS[1],
        Operand::rows("difference").like("mean"),
        Operand::rows("other").like("covariance"),
        Operand::scalar("share"),
    ])
    .gives(&MOMENTS);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        check(of)
    }

    fn flops(&self, operands: &[&Shape], counts: super::Counts) -> u64 {
        7 * operands[1].elements(counts) as u64
    }
}

/// Checks the axes of the moments; returns their shapes.
pub(super) fn check(of: &Shapes<'_>) -> Result<Vec<Shape>> {
    let &[columns] = &of.axes("mean")?[..] else { return Err(of.wrong("mean", "one axis")) };
    of.expect("covariance", &Shape::fixed(&[columns, columns]), "that of mean, twice")?;
    of.expect("share", &Shape::fixed(&[]), "one number")?;
    Ok(vec![of["mean"].clone(), of["covariance"].clone()])
}
