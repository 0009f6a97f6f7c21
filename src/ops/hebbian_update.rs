//! One step of a Hebbian learning rule: Oja's or Sanger's.

use super::definition::{Origin, Step};
use super::{AddScaled, Binary, BinaryKind, Linear, Matmul, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// `weight = weight + rate (y^T x - (inhibition * y^T y) weight) / B`, with the activities `y = x weight^T` and `*` elementwise.
///
/// Without `inhibition`, or with ones, this is Oja's subspace rule (1989), of one unit Oja's rule (1982); with ones on and below
/// the diagonal and zeros above it Sanger's (1989), the generalised Hebbian algorithm.
///
/// Operands: `weight [N, K]`, `x [B, K]`, `rate []`, then optionally `inhibition [N, N]`. Result: `weight`, updated in place.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HebbianUpdate {}

const WEIGHT: Operand = Operand::rows("weight").stored(DType::F32);

impl Operation for HebbianUpdate {
    const NO_DERIVATIVE: Option<&'static str> = Some("it updates weights");
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] =
        &[("{}", &[&[3, 4], &[5, 4], &[]], &[]), ("{}", &[&[3, 4], &[5, 4], &[], &[3, 3]], &[])];
    const SIGNATURE: Signature =
        Signature::of(&[WEIGHT, Operand::rows("x"), Operand::scalar("rate"), Operand::rows("inhibition").optional()])
            .gives(&[WEIGHT])
            .sized();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let &[units, columns] = &of.axes("weight")?[..] else { return Err(of.wrong("weight", "[units, columns]")) };
        let &[rows, _] = &of.axes("x")?[..] else { return Err(of.wrong("x", "[rows, columns]")) };
        of.expect("x", &Shape::fixed(&[rows, columns]), "rows, columns of weight")?;
        of.expect("rate", &Shape::fixed(&[]), "one number")?;
        of.expect("inhibition", &Shape::fixed(&[units, units]), "rows of weight, twice")?;
        Ok(vec![of["weight"].clone()])
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let (weight, x, rate) = (Origin::Operand(0), Origin::Operand(1), Origin::Operand(2));
        let rows = operands[1].rows().size(super::Counts::default()).max(1);
        let mean = Matmul { transpose_a: true, scale: (1.0 / rows as f64) as f32, ..Matmul::default() };
        let (y, gain, mut activities) = (Origin::Step(0), Origin::Step(1), Origin::Step(2));
        let mut steps = vec![
            Step::new(Linear::default(), &[x, weight]),
            Step::new(mean.clone(), &[y, x]),
            Step::new(mean, &[y, y]),
        ];
        if operands.len() > 3 {
            steps.push(Step::new(Binary::from(BinaryKind::Multiply), &[activities, Origin::Operand(3)]));
            activities = Origin::Step(3);
        }
        let loss = Origin::Step(steps.len());
        steps.push(Step::new(Matmul::default(), &[activities, weight]));
        steps.push(Step::new(Binary::from(BinaryKind::Subtract), &[gain, loss]));
        steps.push(Step::new(AddScaled {}, &[weight, Origin::Step(steps.len() - 1), rate]));
        Ok(steps)
    }
}
