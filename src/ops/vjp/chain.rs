//! The derivative of a composition of ops: the chain rule over its steps, from the last to the first.

use super::Vjp;
use crate::ops::definition::{Origin, Step, Term};
use crate::ops::{BinaryKind, Shape};

/// The shapes of a step's operands, and of its result.
type Seen = (Vec<Shape>, Shape);

impl Vjp {
    /// The derivative of an op that consists of `steps`, as [`Vjp::chained`].
    pub(in crate::ops) fn of_steps(steps: Vec<Step>, operands: &[&Shape]) -> Option<Self> {
        Vjp { steps, ..Vjp::new(operands.len()) }.chained(operands)
    }

    /// The derivative of an op that consists of the steps added so far, the last of which gives its result. The other
    /// steps run again, as far as a gradient depends on them. Contributions to a gradient are added in the reverse
    /// order of the steps. `None` without steps, and where a step has no derivative.
    pub(in crate::ops) fn chained(mut self, operands: &[&Shape]) -> Option<Self> {
        let seen = self.seen_shapes(operands)?;
        let forward = self.steps.clone();
        let (last, number) = (forward.len().checked_sub(1)?, operands.len());
        self.steps.truncate(last);
        // Of the operands, then of the steps.
        let mut sums: Vec<Option<Term>> = vec![None; number + forward.len()];
        sums[number + last] = Some(Term::whole(Vjp::gradient(number)));
        for (place, step) in forward.iter().enumerate().rev() {
            let Some(gradient) = sums[number + place].take() else { continue };
            let result = Term::whole(if place == last { Vjp::result(number) } else { Origin::Step(place) });
            for (operand, own) in step.operands.iter().zip(self.append(step, &seen[place], [result, gradient])?) {
                let (sum, shape) = match operand.from {
                    Origin::Operand(place) if place < number => (place, operands[place]),
                    Origin::Operand(_) => continue,
                    Origin::Step(place) => (number + place, &seen[place].1),
                };
                let Some(own) = own.map(|own| own.seen(shape.clone())) else { continue };
                sums[sum] = Some(match sums[sum].take() {
                    None => own,
                    Some(before) => self.binary(BinaryKind::Add, before, own),
                });
            }
        }
        sums.truncate(number);
        self.gradients = sums;
        self.drop_unread();
        Some(self)
    }

    /// What each step so far reads and gives.
    fn seen_shapes(&self, operands: &[&Shape]) -> Option<Vec<Seen>> {
        let mut found: Vec<Seen> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let shape = |term: &Term| match (&term.shape, term.from) {
                (Some(shape), _) => shape.clone(),
                (None, Origin::Step(place)) => found[place].1.clone(),
                (None, Origin::Operand(place)) => match operands.get(place) {
                    Some(shape) => (*shape).clone(),
                    None => self.filled[place - operands.len() - 2].1.clone(),
                },
            };
            let given: Vec<Shape> = step.operands.iter().map(shape).collect();
            // Each step gives one result.
            let [result] = <[Shape; 1]>::try_from(step.op.infer(&given.iter().collect::<Vec<_>>()).ok()?).ok()?;
            found.push((given, result));
        }
        Some(found)
    }

    /// Appends the derivative of a step, given its result and the gradient of this; returns its operands' gradients.
    fn append(&mut self, step: &Step, (shapes, _): &Seen, given: [Term; 2]) -> Option<Vec<Option<Term>>> {
        let own = step.op.vjp(&shapes.iter().collect::<Vec<_>>())?;
        let mut given: Vec<Term> = step.operands.iter().cloned().chain(given).collect();
        given.extend(own.filled.iter().map(|(number, shape)| self.filled(*number, shape.clone())));
        let first = self.results();
        let here = |term: &Term| {
            let found = match term.from {
                Origin::Operand(place) => given[place].clone(),
                Origin::Step(place) => Term::whole(Origin::Step(first + place)),
            };
            Term { shape: term.shape.clone().or(found.shape), ..found }
        };
        for step in &own.steps {
            self.step(step.op.clone(), step.operands.iter().map(here));
        }
        Some(own.gradients.iter().map(|gradient| gradient.as_ref().map(here)).collect())
    }

    /// Drops the steps on which no gradient depends.
    fn drop_unread(&mut self) {
        let place = |term: &Term| match term.from {
            Origin::Step(place) => Some(place),
            Origin::Operand(_) => None,
        };
        let mut read = vec![false; self.results()];
        self.gradients.iter().flatten().filter_map(place).for_each(|place| read[place] = true);
        let mut end = read.len();
        for step in self.steps.iter().rev() {
            let own = end - step.op.results().len()..end;
            end = own.start;
            if read[own.clone()].contains(&true) {
                read[own].fill(true);
                step.operands.iter().filter_map(place).for_each(|place| read[place] = true);
            }
        }
        let mut first = 0;
        self.steps.retain(|step| {
            first += step.op.results().len();
            read[first - 1]
        });
        let operands = self.steps.iter_mut().flat_map(|step| &mut step.operands);
        for term in operands.chain(self.gradients.iter_mut().flatten()) {
            if let Origin::Step(place) = &mut term.from {
                *place = read[..*place].iter().filter(|read| **read).count();
            }
        }
    }
}
