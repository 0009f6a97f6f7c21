//! Derivatives appended to a graph: reverse accumulation over the nodes with each op's
//! [`vjp`](crate::ops::Operation::vjp) (Griewank and Walther 2008).

mod copies;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::{Graph, Node, Source, Value, ValueId};
use crate::dtype::DType;
use crate::ops::definition::{Origin, Term};
use crate::ops::reduce::Stage;
use crate::ops::{Binary, BinaryKind, Cast, Matmul, Op, Reduce, ReduceKind, Shape, vjp};
use crate::{Error, Result};

/// What values are computed again as.
type Copies = HashMap<ValueId, ValueId>;
/// Values in other types.
type Casts = HashMap<(ValueId, DType), ValueId>;

impl Graph {
    /// Appends the nodes that compute the gradients with respect to `with_respect_to`, where `gradient` is the gradient
    /// of `of`. A value on which `of` does not depend has a gradient of zeros. Contributions to a gradient are summed
    /// in the reverse order of the nodes. Where values have 16 bits, derivatives that have kernels for them take and give
    /// them so; sums over tokens, such as gradients of weights, are float32.
    /// Norms and activations that gradients read are computed again, not kept.
    ///
    /// # Errors
    /// `Unsupported` naming a node on the path whose op has no derivative, or none in an operand that depends on
    /// `with_respect_to`; `InvalidArgument` for a gradient whose shape differs from its value's.
    ///
    /// ```
    /// use grilly::dtype::DType;
    /// use grilly::graph::Graph;
    /// use grilly::ops::{Linear, Shape};
    /// let mut graph = Graph::new();
    /// let x = graph.input("x", Shape::fixed(&[5, 3]), DType::F32);
    /// let weight = graph.state("weight", Shape::fixed(&[2, 3]), DType::F32);
    /// let y = graph.node("y", Linear::default(), &[x, weight]).unwrap();
    /// let ones = graph.filled(1.0, Shape::fixed(&[5, 2]));
    /// let [by_weight] = graph.gradients(y, ones, &[weight]).unwrap()[..] else { panic!() };
    /// assert_eq!(graph.value(by_weight).shape, Shape::fixed(&[2, 3]));
    /// ```
    pub fn gradients(&mut self, of: ValueId, gradient: ValueId, with_respect_to: &[ValueId]) -> Result<Vec<ValueId>> {
        self.gradients_from(of, gradient, with_respect_to, &[])
    }

    /// As [`Graph::gradients`], the same in every bit, with less memory: of the values before the last of `kept`, only
    /// `kept` are in memory until the gradients are computed, and the others are computed again, from each of `kept` to
    /// the next (Chen et al. 2016).
    ///
    /// # Errors
    /// As [`Graph::gradients`], and `Unsupported` naming a node before the last of `kept` that updates a value.
    pub fn gradients_from(
        &mut self,
        of: ValueId,
        gradient: ValueId,
        with_respect_to: &[ValueId],
        kept: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let (found, expected) = (&self.value(gradient).shape, &self.value(of).shape);
        if found != expected {
            let name = &self.value(of).name;
            let problem = format!("the gradient of {name} has shape {found}, expected {expected}");
            return Err(Error::InvalidArgument(problem));
        }
        let whole = |value: &Value| match value.source {
            Source::Slice(whole, _) => Some(self.seen(whole)),
            _ => None,
        };
        let wholes: HashSet<ValueId> = self.values.iter().filter_map(whole).collect();
        if let Some(id) = with_respect_to.iter().find(|id| wholes.contains(&self.seen(**id))) {
            let reason = "it is read in parts, of which each has a gradient of its own";
            return Err(Error::unsupported(&self.value(*id).name, reason));
        }
        // The nodes after each of the values that are kept.
        let mut ends: Vec<usize> = kept.iter().filter_map(|id| Some(self.producer(*id)?.0 + 1)).collect();
        ends.sort_unstable();
        let kept: HashSet<ValueId> = kept.iter().map(|id| self.seen(*id)).collect();
        let (mut copies, mut casts, mut light) = (HashMap::new(), HashMap::new(), HashMap::new());
        let mut active: HashSet<ValueId> = with_respect_to.iter().map(|id| self.seen(*id)).collect();
        let before = self.nodes.len();
        for node in &self.nodes {
            if node.operands.iter().any(|id| active.contains(&self.seen(*id))) {
                // The scales of integers are constants.
                let results = if matches!(node.op, Op::QuantizeRows(_)) { &node.results[..1] } else { &node.results };
                active.extend(results);
            }
        }
        let mut sums = HashMap::from([(self.seen(of), gradient)]);
        for index in (0..before).rev() {
            if ends.last() == Some(&(index + 1)) {
                while ends.last() == Some(&(index + 1)) {
                    ends.pop();
                }
                copies = self.computed_again(ends.last().copied().unwrap_or(0)..index + 1, &kept)?;
            }
            let node = self.whole(&self.nodes[index]);
            let Some(gradient) = node.results.iter().find_map(|id| sums.get(id).copied()) else { continue };
            if node.operands.iter().any(|id| active.contains(&self.seen(*id))) {
                for (operand, own) in self.backward(&node, gradient, &active, (&mut copies, &mut light, &mut casts))? {
                    let sum = match sums.get(&operand) {
                        None => own,
                        Some(sum) => {
                            let name = format!("{} gradient sum", self.value(operand).name);
                            let add = Op::from(Binary::from(BinaryKind::Add));
                            let terms = self.typed(&add, vec![*sum, own], &mut casts)?;
                            self.node(&name, add, &terms)?
                        }
                    };
                    sums.insert(operand, sum);
                }
            }
        }
        let mut gradients = Vec::with_capacity(with_respect_to.len());
        for id in with_respect_to {
            let shape = self.value(*id).shape.clone();
            gradients.push(match sums.get(&self.seen(*id)) {
                Some(sum) => self.shaped(*sum, &shape),
                None => self.filled(0.0, shape),
            });
        }
        Ok(gradients)
    }

    /// A node as its derivative sees it: the two nodes of a long reduction are one.
    fn whole(&self, node: &Node) -> Node {
        let parts = |id: &ValueId| self.producer(*id).map(|(place, _)| self.nodes[place].operands.clone());
        match (&node.op, node.operands.first().and_then(parts)) {
            (Op::Reduce(join @ Reduce { stage: Stage::Join { .. }, .. }), Some(operands)) => {
                let op = Reduce { stage: Stage::Whole, ..join.clone() }.into();
                Node { op, operands, ..node.clone() }
            }
            _ => node.clone(),
        }
    }

    /// The gradients of a node's `active` operands, each in the shape of its value.
    fn backward(
        &mut self,
        node: &Node,
        gradient: ValueId,
        active: &HashSet<ValueId>,
        (copies, light, casts): (&mut Copies, &mut Copies, &mut Casts),
    ) -> Result<Vec<(ValueId, ValueId)>> {
        let vjp = node.op.vjp_of(&self.shapes(&node.operands), &self.same(&node.operands));
        let vjp = vjp.ok_or_else(|| vjp::none(&node.name, &node.op))?;
        let result = node.results[0];
        let shape = self.value(result).shape.clone();
        let read = node.operands.iter().chain([&result]);
        let mut given = Vec::with_capacity(vjp.gradients.len() + 2);
        for id in read {
            given.push(match self.copy_of(*id, copies) {
                same if same == *id => self.light_copy(*id, light)?,
                copy => copy,
            });
        }
        given.push(self.shaped(gradient, &shape));
        for (number, shape) in &vjp.filled {
            given.push(self.filled(*number, shape.clone()));
        }
        let mut results = Vec::with_capacity(vjp.steps.len());
        for step in &vjp.steps {
            let operands: Vec<_> = step.operands.iter().map(|term| self.term(term, &given, &results)).collect();
            let op = unrounded(&step.op, &self.value(operands[0]).shape);
            let operands = self.typed(&op, operands, casts)?;
            // The gradient of a value in 16 bits may be float32, as that of what it was converted from.
            if matches!(&node.op, Op::Cast(_)) && self.value(operands[0]).dtype == DType::F32 {
                results.push(operands[0]);
                continue;
            }
            results.extend(self.apply(&format!("{} gradient", node.name), op, &operands)?);
        }
        let mut gradients = Vec::new();
        for (place, (operand, term)) in node.operands.iter().zip(&vjp.gradients).enumerate() {
            let seen = self.seen(*operand);
            let has_one = |(other, term): (&ValueId, &Option<Term>)| term.is_some() && self.seen(*other) == seen;
            let known = node.operands.iter().zip(&vjp.gradients).any(has_one);
            if active.contains(&seen) && self.value(seen).dtype.is_float() && !known {
                let (op, operand) = (node.op.name(), node.op.operand(place).name);
                return Err(Error::unsupported(&node.name, format!("{op} has no derivative in {operand}")));
            }
            if let (Some(term), true) = (term, active.contains(&seen)) {
                let (own, shape) = (self.term(term, &given, &results), self.value(seen).shape.clone());
                gradients.push((seen, self.shaped(own, &shape)));
            }
        }
        Ok(gradients)
    }

    /// Operands of a step of a derivative in the types that its kernels take: in 16 bits those that kernels read so, if one of
    /// them is and all are rows of whole fours, and all others in float32.
    fn typed(&mut self, op: &Op, mut operands: Vec<ValueId>, casts: &mut Casts) -> Result<Vec<ValueId>> {
        let types: Vec<DType> = operands.iter().map(|id| self.value(*id).dtype).collect();
        let able = || (0..types.len()).filter(|place| op.operand(*place).narrow);
        let whole = able().all(|place| self.value(operands[place]).shape.columns().is_multiple_of(4));
        let narrow = able().map(|place| types[place]).find(|dtype| whole && dtype.is_narrow()).unwrap_or(DType::F32);
        for (place, (id, found)) in operands.iter_mut().zip(&types).enumerate() {
            let to = if op.operand(place).narrow { narrow } else { DType::F32 };
            if found.is_float() && *found != to {
                let cast = match casts.get(&(*id, to)) {
                    Some(cast) => *cast,
                    None => self.node(&format!("{} in {}", self.value(*id).name, to.name()), Cast { to }, &[*id])?,
                };
                casts.insert((*id, to), cast);
                *id = cast;
            }
        }
        Ok(operands)
    }

    /// Appends copies of nodes, but for those that compute the values to keep; returns what their results are copies of.
    fn computed_again(&mut self, nodes: Range<usize>, kept: &HashSet<ValueId>) -> Result<Copies> {
        let mut copies = HashMap::new();
        for index in nodes {
            let Node { name, op, operands, results, .. } = self.nodes[index].clone();
            if results.iter().all(|id| kept.contains(id)) {
                continue;
            }
            if results.iter().any(|id| self.value(*id).source != Source::Node) {
                return Err(Error::unsupported(&name, "it updates a value, so that it cannot be computed again"));
            }
            let operands: Vec<ValueId> = operands.iter().map(|id| self.copy_of(*id, &mut copies)).collect();
            for (id, copy) in results.iter().zip(self.add(&format!("{name} again"), op, &operands)?) {
                if !kept.contains(id) {
                    copies.insert(*id, copy);
                }
                self.again.insert(copy, *id);
            }
        }
        Ok(copies)
    }

    /// For each value, the place of the first that is the same one in the same shape.
    fn same(&self, values: &[ValueId]) -> Vec<usize> {
        let is = |one: &ValueId, other: &ValueId| {
            self.seen(*one) == self.seen(*other) && self.value(*one).shape == self.value(*other).shape
        };
        let first = |value: &ValueId| values.iter().position(|other| is(value, other));
        values.iter().map(|value| first(value).unwrap_or_default()).collect()
    }

    /// An operand of a step, in the shape that the step takes.
    pub(super) fn term(&mut self, term: &Term, given: &[ValueId], results: &[ValueId]) -> ValueId {
        let id = match term.from {
            Origin::Operand(place) => given[place],
            Origin::Step(place) => results[place],
        };
        match &term.shape {
            Some(shape) => self.shaped(id, shape),
            None => id,
        }
    }

    /// The value in the given shape: itself, or a view of it.
    fn shaped(&mut self, id: ValueId, shape: &Shape) -> ValueId {
        if self.value(id).shape == *shape {
            return id;
        }
        let name = self.value(id).name.clone();
        self.view(&name, id, shape.clone())
    }
}

/// A step that does not round its result if that is a sum over tokens, as the gradient of a weight or a bias is.
fn unrounded(op: &Op, first: &Shape) -> Op {
    match op {
        Op::Matmul(product) if product.transpose_a => Matmul { wide: true, ..product.clone() }.into(),
        Op::Reduce(sum) if sum.kind == ReduceKind::Sum && sum.axis + 1 < first.0.len() => {
            Reduce { wide: true, ..sum.clone() }.into()
        }
        op => op.clone(),
    }
}

#[cfg(test)]
mod tests;
