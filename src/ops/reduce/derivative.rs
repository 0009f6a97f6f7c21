//! The derivative of a reduction.

use super::{Reduce, ReduceKind, Stage};
use crate::ops::definition::{Origin, Term};
use crate::ops::{Activation, ActivationBackward, ActivationKind, BinaryKind, Dim, Shape, Vjp};

/// Added to the variance where its root is differentiated, so that equal elements have gradients of zero.
const LEAST_VARIANCE: f32 = 1e-36;

/// The derivative; of a stage, none.
pub(super) fn of(reduce: &Reduce, operands: &[&Shape]) -> Option<Vjp> {
    let axes = Axes { axis: reduce.axis, x: operands[0], weighted: operands.len() > 1 };
    match (reduce.stage, reduce.kind) {
        (Stage::Whole, ReduceKind::Sum) => Some(axes.sum()),
        (Stage::Whole, ReduceKind::Mean) => axes.mean(operands),
        (Stage::Whole, ReduceKind::Max) => Some(axes.max()),
        (Stage::Whole, ReduceKind::Deviation) => axes.deviation(operands),
        _ => None,
    }
}

struct Axes<'a> {
    axis: usize,
    x: &'a Shape,
    weighted: bool,
}

const X: Term = Term { from: Origin::Operand(0), shape: None };

impl Axes<'_> {
    fn vjp(&self) -> Vjp {
        Vjp::new(if self.weighted { 2 } else { 1 })
    }

    /// The shape of `x` with an axis of one in place of the reduced one.
    fn column(&self) -> Shape {
        let mut shape = self.x.clone();
        shape.0[self.axis] = Dim::Fixed(1);
        shape
    }

    /// The shape of the weights with axes of one in place of those that only `x` has.
    fn outer(&self) -> Shape {
        let one = |(place, dim): (usize, &Dim)| if place > self.axis { Dim::Fixed(1) } else { *dim };
        Shape(self.x.0.iter().enumerate().map(one).collect())
    }

    /// The weights, which broadcast to `x`.
    fn weights(&self) -> Option<Term> {
        self.weighted.then(|| Term::whole(Origin::Operand(1)).seen(self.outer()))
    }

    /// The gradient of the result, which broadcasts to `x`.
    fn gradient(&self) -> Term {
        Term::whole(Vjp::gradient(if self.weighted { 2 } else { 1 })).seen(self.column())
    }

    /// `w g`, and of the weights `sum x g` over the axes that share one.
    fn sum(&self) -> Vjp {
        let (mut vjp, g) = (self.vjp(), self.gradient());
        let mut each = vjp.filled(1.0, self.x.clone());
        if let Some(weights) = self.weights() {
            each = vjp.binary(BinaryKind::Multiply, each, weights);
            let mut products = vjp.binary(BinaryKind::Multiply, X, g.clone());
            let inner = &self.x.0[self.axis + 1..];
            if !inner.is_empty() {
                let columns = inner.iter().map(|dim| dim.size(Default::default())).product();
                let seen = Shape([&self.x.0[..=self.axis], &[Dim::Fixed(columns)]].concat());
                products = vjp.step(Reduce::along(self.axis + 1, ReduceKind::Sum), [products.seen(seen)]);
            }
            vjp.give(1, products);
        }
        let by_x = vjp.binary(BinaryKind::Multiply, each, g);
        vjp.give(0, by_x);
        vjp
    }

    /// That of a sum and a division by the number of elements, or by the sum of the weights.
    fn mean(&self, operands: &[&Shape]) -> Option<Vjp> {
        let mut vjp = self.vjp();
        let (of, divisor) = if self.weighted {
            let weights = Term::whole(Origin::Operand(1));
            let total = vjp.step(Reduce::along(self.axis, ReduceKind::Sum), [weights.clone()]);
            (vec![X, weights], vjp.at_least(total, 1e-9))
        } else {
            let number = match self.x.0[self.axis] {
                Dim::Fixed(n) => vjp.filled(n as f32, Shape::fixed(&[])),
                counted => {
                    let ones = vjp.filled(1.0, Shape(vec![counted]));
                    vjp.step(Reduce::rows(ReduceKind::Sum), [ones])
                }
            };
            (vec![X], number)
        };
        let sum = vjp.step(Reduce::along(self.axis, ReduceKind::Sum), of);
        let divisor = if self.weighted {
            let mut shape = self.outer();
            shape.0.remove(self.axis);
            divisor.seen(shape)
        } else {
            divisor
        };
        vjp.binary(BinaryKind::Divide, sum, divisor);
        vjp.chained(operands)
    }

    /// The gradient in equal parts to the elements that are the largest; to none of those without weight.
    fn max(&self) -> Vjp {
        let (mut vjp, result) = (self.vjp(), Vjp::result(if self.weighted { 2 } else { 1 }));
        let relu_backward = || ActivationBackward(Activation::from(ActivationKind::Relu));
        let mut kept = vjp.filled(1.0, self.x.clone());
        if let Some(weights) = self.weights() {
            let each = vjp.binary(BinaryKind::Multiply, kept.clone(), weights);
            kept = vjp.step(relu_backward(), [kept, each]);
        }
        let below = vjp.binary(BinaryKind::Subtract, X, Term::whole(result).seen(self.column()));
        let below = vjp.by_number(BinaryKind::Multiply, below, -1.0);
        let smaller = vjp.step(relu_backward(), [kept.clone(), below]);
        let largest = vjp.binary(BinaryKind::Subtract, kept, smaller);
        let number = vjp.step(Reduce::along(self.axis, ReduceKind::Sum), [largest.clone()]);
        let number = vjp.at_least(number, 1.0).seen(self.column());
        let g = vjp.binary(BinaryKind::Divide, self.gradient(), number);
        let by_x = vjp.binary(BinaryKind::Multiply, largest, g);
        vjp.give(0, by_x);
        vjp
    }

    /// That of the root of the mean of `(x - mean)^2`.
    fn deviation(&self, operands: &[&Shape]) -> Option<Vjp> {
        let mut vjp = self.vjp();
        let mean = || Reduce::along(self.axis, ReduceKind::Mean);
        let centre = vjp.step(mean(), [X]).seen(self.column());
        let centred = vjp.binary(BinaryKind::Subtract, X, centre);
        let squares = vjp.binary(BinaryKind::Multiply, centred.clone(), centred);
        let variance = vjp.step(mean(), [squares]);
        let variance = vjp.by_number(BinaryKind::Add, variance, LEAST_VARIANCE);
        vjp.step(Activation::from(ActivationKind::Sqrt), [variance]);
        vjp.chained(operands)
    }
}
