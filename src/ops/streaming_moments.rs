//! Running mean and covariance of rows that come in batches.

use super::combine_moments::{MOMENTS, check};
use super::definition::{Origin, Step};
use super::{
    Binary, BinaryKind, CombineMoments, Counts, Matmul, Operand, Operation, Reduce, ReduceKind, Shape, Shapes,
    Signature,
};
use crate::Result;

/// Mean and population covariance of all rows so far, from those before a batch and the rows `x` of the batch, which are a `share`
/// of all: [`CombineMoments`] with the mean and the covariance of `x`. A share of 1 begins anew; one larger than the batch's gives
/// late rows more weight.
///
/// Operands: `mean [K]`, `covariance [K, K]`, `x [B, K]`, of at least one row, and `share []`. Results: `mean` and `covariance`,
/// updated in place.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamingMoments {}

impl Operation for StreamingMoments {
    const NO_DERIVATIVE: Option<&'static str> = Some("it updates moments");
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[4], &[4, 4], &[5, 4], &[]], &[])];
    const SIGNATURE: Signature =
        Signature::of(&[MOMENTS[0], MOMENTS[1], Operand::rows("x"), Operand::scalar("share")]).gives(&MOMENTS).sized();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let moments = check(of)?;
        match of.axes("x")?[..] {
            [rows, columns] if rows > 0 && columns == moments[0].columns() => Ok(moments),
            _ => Err(of.wrong("x", format!("[at least one row, {}]", moments[0].columns()))),
        }
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let [mean, covariance, x, share] = [0, 1, 2, 3].map(Origin::Operand);
        let rows = operands[2].rows().size(Counts::default()).max(1);
        let square = Matmul { transpose_a: true, scale: (1.0 / rows as f64) as f32, ..Matmul::default() };
        let [own_mean, centred, own_covariance, difference] = [0, 1, 2, 3].map(Origin::Step);
        Ok(vec![
            Step::new(Reduce::rows(ReduceKind::Mean), &[x]),
            Step::new(Binary::from(BinaryKind::Subtract), &[x, own_mean]),
            Step::new(square, &[centred, centred]),
            Step::new(Binary::from(BinaryKind::Subtract), &[own_mean, mean]),
            Step::new(CombineMoments {}, &[mean, covariance, difference, own_covariance, share]),
        ])
    }
}
