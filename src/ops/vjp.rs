//! Derivatives: steps of other ops that compute the gradients of an op's operands from the gradient of its result
//! (vector-Jacobian product, Griewank and Walther 2008).

use std::ops::Range;

use super::definition::{self, Origin, Step, Term};
use super::{Binary, BinaryKind, Op, Reduce, ReduceKind, Shape};

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

    /// The derivative of an op whose first operand's gradient is a single op: on the gradient of the
    /// result, then on the operands at `places`, after which comes the result.
    pub(super) fn single(operands: usize, op: impl Into<Op>, places: Range<usize>) -> Option<Self> {
        let mut vjp = Vjp::new(operands);
        let terms = std::iter::once(Vjp::gradient(operands)).chain(definition::given(places));
        let gradient = vjp.step(op, terms.map(Term::whole));
        vjp.give(0, gradient);
        Some(vjp)
    }

    /// The derivative of a norm of the rows of its first operand, with a weight and possibly a bias per column;
    /// `backward` gives the gradient of the first operand. `None` as in [`Shape::flat`].
    pub(super) fn of_norm(operands: &[&Shape], norm: impl Into<Op>, backward: impl Into<Op>) -> Option<Self> {
        let [x, weight, bias @ ..] = operands else { return None };
        let rows = x.flat()?;
        let mut vjp = Vjp::new(operands.len());
        let flat = |from| Term::whole(from).seen(rows.clone());
        let (x_flat, g_flat) = (flat(Origin::Operand(0)), flat(Vjp::gradient(operands.len())));
        // The normalised rows: the norm with a weight of ones and a bias of zeros.
        let mut unit = vec![x_flat.clone(), vjp.filled(1.0, (*weight).clone())];
        unit.extend(bias.iter().map(|bias| vjp.filled(0.0, (*bias).clone())));
        let unit = vjp.step(norm, unit);
        let product = vjp.step(Binary::from(BinaryKind::Multiply), [g_flat.clone(), unit]);
        let by_weight = vjp.step(Reduce::rows(ReduceKind::Sum), [product]);
        vjp.give(1, by_weight);
        if !bias.is_empty() {
            let by_bias = vjp.step(Reduce::rows(ReduceKind::Sum), [g_flat.clone()]);
            vjp.give(2, by_bias);
        }
        let by_x = vjp.step(backward, [g_flat, x_flat, Term::whole(Origin::Operand(1))]);
        vjp.give(0, by_x.seen((*x).clone()));
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

    /// Adds a step; its first result.
    pub(super) fn step(&mut self, op: impl Into<Op>, operands: impl IntoIterator<Item = Term>) -> Term {
        let before: usize = self.steps.iter().map(|step| step.op.results().len()).sum();
        self.steps.push(Step { op: op.into(), operands: operands.into_iter().collect() });
        Term::whole(Origin::Step(before))
    }

    /// As [`Vjp::step`], with all its results.
    pub(super) fn step_of_several<const N: usize>(
        &mut self,
        op: impl Into<Op>,
        operands: impl IntoIterator<Item = Term>,
    ) -> [Term; N] {
        let first = self.step(op, operands);
        let Origin::Step(place) = first.from else { unreachable!("a step's result") };
        std::array::from_fn(|number| Term::whole(Origin::Step(place + number)))
    }

    /// Sets the gradient of the operand at a place.
    pub(super) fn give(&mut self, place: usize, gradient: Term) {
        self.gradients[place] = Some(gradient);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::{Counts, Dim};

    fn axes(shape: &Shape) -> usize {
        shape.elements(Counts::default())
    }

    #[test]
    fn gradients_have_the_shapes_of_their_operands() {
        for (name, attributes, operands) in [
            ("activation", json!({"kind": "silu"}), &[&[2, 3, 4][..]][..]),
            ("cross_entropy", json!({}), &[&[2, 3, 4], &[2, 3], &[4]]),
            ("dropout", json!({"p": 0.5, "seed": 1}), &[&[2, 3]]),
            ("gated", json!({"kind": "silu"}), &[&[2, 3, 4]]),
            ("layer_norm", json!({}), &[&[2, 3, 4], &[4], &[4]]),
            ("linear", json!({}), &[&[2, 3, 4], &[5, 4]]),
            ("linear", json!({"bias": true}), &[&[4], &[5, 4], &[5]]),
            ("rms_norm", json!({}), &[&[2, 3, 4], &[4]]),
            ("softmax", json!({}), &[&[2, 3, 4]]),
        ] {
            let op = Op::from_attributes(name, attributes).unwrap();
            let shapes: Vec<Shape> = operands.iter().map(|axes| Shape::fixed(axes)).collect();
            let shapes: Vec<&Shape> = shapes.iter().collect();
            let result = op.infer(&shapes).unwrap().remove(0);
            let vjp = op.vjp(&shapes).unwrap();
            let filled = vjp.filled.iter().map(|(_, shape)| shape);
            let given: Vec<&Shape> = shapes.iter().copied().chain([&result, &result]).chain(filled).collect();
            let mut results: Vec<Shape> = Vec::new();
            let seen = |term: &Term, results: &[Shape]| {
                let own = match term.from {
                    Origin::Operand(place) => given[place].clone(),
                    Origin::Step(place) => results[place].clone(),
                };
                let shape = term.shape.clone().unwrap_or(own.clone());
                assert_eq!(axes(&shape), axes(&own), "{name}");
                shape
            };
            for step in &vjp.steps {
                let terms: Vec<Shape> = step.operands.iter().map(|term| seen(term, &results)).collect();
                results.extend(step.op.infer(&terms.iter().collect::<Vec<_>>()).unwrap());
            }
            assert_eq!(vjp.gradients.len(), shapes.len(), "{name}");
            assert!(vjp.gradients[0].is_some(), "{name}");
            for (gradient, shape) in vjp.gradients.iter().zip(&shapes) {
                assert!(gradient.as_ref().is_none_or(|term| seen(term, &results) == **shape), "{name}");
            }
        }
        // Rows that a batch counts.
        let (x, weight) = (Shape::matrix(Dim::Tokens, 4), Shape::fixed(&[5, 4]));
        let vjp = Op::from_attributes("linear", json!({})).unwrap().vjp(&[&x, &weight]).unwrap();
        let g = Shape::matrix(Dim::Tokens, 5);
        assert_eq!(vjp.steps[0].op.infer(&[&g, &weight]).unwrap(), std::slice::from_ref(&x));
        assert_eq!(vjp.steps[1].op.infer(&[&g, &x]).unwrap(), [weight]);
        let (q, k, offsets) = (Shape::matrix(Dim::Tokens, 12), Shape::fixed(&[7, 6]), Shape::vector(Dim::Boundaries));
        let operands = [&q, &k, &k, &offsets, &offsets];
        let attention = json!({"heads": 4, "kv_heads": 2, "head_dim": 3, "scale": 1.0});
        let vjp = Op::from_attributes("attention", attention).unwrap().vjp(&operands).unwrap();
        let found = vjp.steps[0].op.infer(&[&[&q, &q], &operands[..]].concat()).unwrap();
        assert_eq!(found, [q, k.clone(), k]);
        let given = vjp.gradients.iter().map(|term| term.as_ref().map(|term| term.from));
        let results = [0, 1, 2].map(|place| Some(Origin::Step(place)));
        assert_eq!(given.collect::<Vec<_>>(), [&results[..], &[None, None]].concat());
        let fused = Op::from_attributes("linear", json!({"residual": "added"})).unwrap();
        let x = Shape::fixed(&[2, 2]);
        assert_eq!(fused.vjp(&[&x, &x, &x]), None);
    }
}
