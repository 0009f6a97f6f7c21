//! Derivatives: steps of other ops that compute the gradients of an op's operands from the gradient of its result
//! (vector-Jacobian product, Griewank and Walther 2008).

mod chain;
#[cfg(test)]
mod tests;

use std::ops::Range;

use super::definition::{self, Origin, Step, Term};
use super::{Activation, ActivationKind, Binary, BinaryKind, Counts, Matmul, Op, Reduce, ReduceKind, Shape};
use crate::Error;

/// Of a derivative.
pub(super) const SECOND: &str = "it is a derivative, and second derivatives are not computed";
/// Of a part of attention.
pub(super) const PARTS: &str = "networks that are trained use the fused attention";
/// Of an op on integers.
pub(super) const INTEGERS: &str = "integers have no derivative";
/// Of a choice among elements.
pub(super) const CHOICE: &str = "what is chosen changes in steps";
/// Of a norm and the rounding of its rows.
pub(super) const STEPS: &str = "gradients are those of the norm and of the rounding, which plans join later";
/// Of an op on the rows of experts.
pub(super) const EXPERTS: &str = "no kernel multiplies gradients by expert";

/// The error for an op, at a place, without a derivative.
pub(crate) fn none(place: &str, op: &Op) -> Error {
    let reason = op.no_derivative().unwrap_or("no kernels compute it for these operands and attributes");
    Error::unsupported(place, format!("{} has no derivative: {reason}", op.name()))
}

/// The gradients of an op's operands.
#[derive(Debug, Clone, PartialEq)]
pub struct Vjp {
    operands: usize,
    /// Constants that the steps read, each filled with one number.
    pub filled: Vec<(f32, Shape)>,
    /// Steps over the op's operands, its result, the gradient of the result and the constants, in this order.
    pub steps: Vec<Step>,
    /// The gradient of each operand; `None` for an operand without one, such as indices.
    pub gradients: Vec<Option<Term>>,
}

impl Vjp {
    /// The derivative of an op with this number of operands, none of which has a gradient yet.
    pub(super) fn new(operands: usize) -> Self {
        Vjp { operands, filled: Vec::new(), steps: Vec::new(), gradients: vec![None; operands] }
    }

    /// The derivative of an op whose first operand's gradient is that of the result.
    pub(super) fn passed(operands: usize) -> Self {
        let mut vjp = Vjp::new(operands);
        vjp.give(0, Term::whole(Vjp::gradient(operands)));
        vjp
    }

    /// The derivative of an op whose first operand's gradient is a single op: on the gradient of the
    /// result, then on the operands at `places`, after which comes the result.
    pub(super) fn single(operands: usize, op: impl Into<Op>, places: Range<usize>) -> Option<Self> {
        let mut vjp = Vjp::new(operands);
        let terms = std::iter::once(Vjp::gradient(operands)).chain(definition::given(places));
        let gradient = vjp.step(op, terms.map(Term::whole));
        vjp.give(0, gradient);
        Some(vjp)
    }

    /// Whether a step reads the op's result.
    pub fn reads_result(&self) -> bool {
        let result = Vjp::result(self.operands);
        self.steps.iter().flat_map(|step| &step.operands).any(|term| term.from == result)
    }

    /// The op's result.
    pub(super) fn result(operands: usize) -> Origin {
        Origin::Operand(operands)
    }

    /// The gradient of the op's result.
    pub(super) fn gradient(operands: usize) -> Origin {
        Origin::Operand(operands + 1)
    }

    /// Adds a constant filled with `number`.
    pub(super) fn filled(&mut self, number: f32, shape: Shape) -> Term {
        self.filled.push((number, shape));
        Term::whole(Origin::Operand(self.operands + 1 + self.filled.len()))
    }

    /// Adds a step and returns its first result.
    pub(super) fn step(&mut self, op: impl Into<Op>, operands: impl IntoIterator<Item = Term>) -> Term {
        let [first] = self.results_of(op, operands);
        first
    }

    /// Adds a step and returns its first results.
    pub(super) fn results_of<const N: usize>(
        &mut self,
        op: impl Into<Op>,
        operands: impl IntoIterator<Item = Term>,
    ) -> [Term; N] {
        let first = self.results();
        self.steps.push(Step { op: op.into(), operands: operands.into_iter().collect() });
        std::array::from_fn(|place| Term::whole(Origin::Step(first + place)))
    }

    /// The number of results of the steps so far.
    fn results(&self) -> usize {
        self.steps.iter().map(|step| step.op.results().len()).sum()
    }

    /// Adds an elementwise step; `b` broadcasts to `a`.
    pub(super) fn binary(&mut self, kind: BinaryKind, a: Term, b: Term) -> Term {
        self.step(Binary::from(kind), [a, b])
    }

    /// Adds an elementwise step with a number.
    pub(super) fn by_number(&mut self, kind: BinaryKind, a: Term, number: f32) -> Term {
        let number = self.filled(number, Shape::fixed(&[]));
        self.binary(kind, a, number)
    }

    /// Adds the larger of an element and a number, `relu(a - number) + number`.
    pub(super) fn at_least(&mut self, a: Term, number: f32) -> Term {
        let above = self.by_number(BinaryKind::Subtract, a, number);
        let above = self.step(Activation::from(ActivationKind::Relu), [above]);
        self.by_number(BinaryKind::Add, above, number)
    }

    /// Sets the gradients of `x weight^T` of operands of these shapes, at these places, and of the bias at its own.
    pub(super) fn give_product(
        &mut self,
        [x, weight]: [&Shape; 2],
        [flat, matrix]: [Term; 2],
        [place, of_weight]: [usize; 2],
        bias: Option<usize>,
    ) -> Option<()> {
        let rows = x.flat()?;
        let n = weight.rows().size(Counts::default());
        let g = Term::whole(Vjp::gradient(self.operands)).seen(rows.with_columns(n));
        if let Some(bias) = bias {
            let by_bias = self.step(Reduce::rows(ReduceKind::Sum), [g.clone()]);
            self.give(bias, by_bias);
        }
        let by_x = self.step(Matmul::default(), [g.clone(), matrix]);
        self.give(place, by_x.seen(x.clone()));
        let by_weight = self.step(Matmul { transpose_a: true, ..Matmul::default() }, [g, flat.seen(rows)]);
        self.give(of_weight, by_weight);
        Some(())
    }

    /// Sets the gradient of the operand at a place.
    pub(super) fn give(&mut self, place: usize, gradient: Term) {
        self.gradients[place] = Some(gradient);
    }
}
