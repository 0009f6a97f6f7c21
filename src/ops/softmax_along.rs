//! Softmax over any axis.

use super::definition::{Origin, Step};
use super::{
    Activation, ActivationKind, Binary, BinaryKind, Dim, Operand, Operation, Reduce, ReduceKind, Shape, Shapes,
    Signature, Vjp,
};
use crate::Result;

/// `y = e^x / sum e^x` over an axis.
///
/// Operands: `x`. Result: its shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoftmaxAlong {
    /// The axis, counted from the first.
    pub axis: usize,
}

/// `p (g - sum(g p))` over an axis: the gradient in `x` of a [`SoftmaxAlong`] whose result was `p`; attributes as there.
///
/// Operands: `g`, `p` of the same shape. Result: that shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct SoftmaxAlongBackward(pub SoftmaxAlong);

impl SoftmaxAlong {
    /// The shape of `x` with one element along the axis.
    fn column(&self, x: &Shape) -> Shape {
        let mut column = x.clone();
        column.0[self.axis] = Dim::Fixed(1);
        column
    }

    fn check(&self, of: &Shapes<'_>, name: &str) -> Result<Vec<Shape>> {
        let x = &of[name];
        let fits = self.axis < x.0.len();
        fits.then(|| vec![x.clone()]).ok_or_else(|| of.wrong(name, format!("an axis {}", self.axis)))
    }
}

impl Operation for SoftmaxAlong {
    const EVERYWHERE: super::Coverage = super::Coverage::Steps;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"axis": 1}"#, &[&[2, 3, 4]], &[0])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("x")]).sized();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        self.check(of, "x")
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let (x, column) = (Origin::Operand(0), self.column(operands[0]));
        let reduce = |kind| Reduce::along(self.axis, kind);
        Ok(vec![
            Step::new(reduce(ReduceKind::Max), &[x]),
            Step::new(Binary::from(BinaryKind::Subtract), &[x, Origin::Step(0)]).viewing(1, column.clone()),
            Step::new(Activation::from(ActivationKind::Exp), &[Origin::Step(1)]),
            Step::new(reduce(ReduceKind::Sum), &[Origin::Step(2)]),
            Step::new(Binary::from(BinaryKind::Divide), &[Origin::Step(2), Origin::Step(3)]).viewing(1, column),
        ])
    }

    fn vjp(&self, _: &[&Shape]) -> Option<Vjp> {
        Vjp::single(1, SoftmaxAlongBackward(self.clone()), 1..2)
    }
}

impl Operation for SoftmaxAlongBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"axis": 1}"#, &[&[2, 3, 4], &[2, 3, 4]], &[])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("g"), Operand::rows("p").like("g")]).sized();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        self.0.check(of, "g")
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let (g, p) = (Origin::Operand(0), Origin::Operand(1));
        Ok(vec![
            Step::new(Binary::from(BinaryKind::Multiply), &[g, p]),
            Step::new(Reduce::along(self.0.axis, ReduceKind::Sum), &[Origin::Step(0)]),
            Step::new(Binary::from(BinaryKind::Subtract), &[g, Origin::Step(1)]).viewing(1, self.0.column(operands[0])),
            Step::new(Binary::from(BinaryKind::Multiply), &[p, Origin::Step(2)]),
        ])
    }
}
