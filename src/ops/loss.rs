//! Losses of elements, and their sum or mean.

use super::definition::{Origin, Step, Term};
use super::{
    Binary, BinaryCrossEntropy, BinaryKind, Counts, Operand, Operation, Reduce, ReduceKind, Shape, Shapes, Signature,
    Vjp,
};
use crate::Result;

/// The loss of an element `x` with target `t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// `(x - t)^2`
    Squared,
    /// As [`BinaryCrossEntropy`].
    BinaryCrossEntropy,
}

/// What is made of the losses of all elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// They are the result.
    None,
    /// Their sum.
    Sum,
    /// Their sum, divided by their number.
    #[default]
    Mean,
}

/// `y = reduction(w loss(x, t))`; targets and weights have no gradient.
///
/// Operands: `x`, `t` of the same shape, then optionally `w`, which broadcasts to it. Result: a number, or `x`'s shape without
/// a reduction.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loss {
    /// The loss of an element.
    pub kind: LossKind,
    /// The reduction; default the mean.
    #[serde(default)]
    pub reduction: Reduction,
}

/// The axes of all elements as one.
fn flat(x: &Shape) -> Shape {
    Shape::fixed(&[x.elements(Counts::default())])
}

impl Operation for Loss {
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        (r#"{"kind": "squared"}"#, &[&[2, 3], &[2, 3]], &[0]),
        (r#"{"kind": "squared", "reduction": "none"}"#, &[&[2, 3], &[2, 3], &[3]], &[0]),
        (r#"{"kind": "binary_cross_entropy", "reduction": "sum"}"#, &[&[2, 3], &[2, 3], &[3]], &[0]),
    ];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("x"), Operand::rows("t").like("x"), Operand::rows("w").optional()]).sized();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.axes("x")?;
        super::definition::infer(&self.definition(of.all())?, of)
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let (x, t, w) = (Origin::Operand(0), Origin::Operand(1), Origin::Operand(2));
        let mut steps = match self.kind {
            LossKind::BinaryCrossEntropy => vec![Step::new(BinaryCrossEntropy {}, &[x, t])],
            LossKind::Squared => vec![
                Step::new(Binary::from(BinaryKind::Subtract), &[x, t]),
                Step::new(Binary::from(BinaryKind::Multiply), &[Origin::Step(0); 2]),
            ],
        };
        if operands.len() > 2 {
            steps.push(Step::new(Binary::from(BinaryKind::Multiply), &[Origin::Step(steps.len() - 1), w]));
        }
        let kind = match self.reduction {
            Reduction::None => return Ok(steps),
            Reduction::Sum => ReduceKind::Sum,
            Reduction::Mean => ReduceKind::Mean,
        };
        let all = flat(operands[0]);
        // Of no elements there are no losses to compute.
        let losses = if all.columns() == 0 { x } else { Origin::Step(steps.len() - 1) };
        if losses == x {
            steps.clear();
        }
        steps.push(Step::new(Reduce::rows(kind), &[losses]).viewing(0, all));
        Ok(steps)
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let mut vjp = Vjp::new(operands.len());
        let [x, t, w] = [0, 1, 2].map(|place| Term::whole(Origin::Operand(place)));
        let mut each = Term::whole(Vjp::gradient(operands.len()));
        if self.reduction != Reduction::None {
            let all = flat(operands[0]).columns().max(1) as f64;
            let share = if self.reduction == Reduction::Mean { (1.0 / all) as f32 } else { 1.0 };
            let shares = vjp.filled(share, operands[0].clone());
            each = vjp.binary(BinaryKind::Multiply, shares, each);
        }
        if operands.len() > 2 {
            each = vjp.binary(BinaryKind::Multiply, each, w);
        }
        let by_x = match self.kind {
            LossKind::Squared => {
                let difference = vjp.binary(BinaryKind::Subtract, x, t);
                let twice = vjp.by_number(BinaryKind::Multiply, difference, 2.0);
                vjp.binary(BinaryKind::Multiply, twice, each)
            }
            LossKind::BinaryCrossEntropy => BinaryCrossEntropy::slope(&mut vjp, [x, t], each),
        };
        vjp.give(0, by_x);
        Some(vjp)
    }
}
