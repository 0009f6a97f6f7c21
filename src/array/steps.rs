//! Stepwise evaluation on arrays: the definition of a fused op, and the gradients of an op's operands.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{Array, Engine, Hashed, call};
use crate::backend::Memory;
use crate::dtype::DType;
use crate::ops::definition::{Origin, Step, Term};
use crate::ops::{Counts, Op, Shape, vjp};
use crate::process::memory;
use crate::{Error, Result};

/// Maximum number of constant arrays that an engine caches.
const MOST_FILLED: usize = 32;

/// Memory of constant arrays, by the number's bits and the axes.
#[derive(Default)]
pub(super) struct Filled(Mutex<HashMap<(u32, Vec<usize>), Memory>>);

impl Engine {
    /// Runs the definition of a fused op step by step, each result rounded to the type of its operands.
    ///
    /// # Errors
    /// `InvalidArgument` for an op that is not fused, else as [`Engine::call`].
    ///
    /// ```
    /// use grilly::array::Engine;
    /// use grilly::dtype::DType;
    /// use grilly::ops::{BiasGelu, Op};
    /// let engine = Engine::of("cpu").unwrap();
    /// let x = engine.upload(DType::F32, &[1], &(-9f32).to_le_bytes()).unwrap();
    /// let op = Op::from(BiasGelu::default());
    /// let (fused, apart) = (engine.call(&op, &[&x, &x]).unwrap(), engine.call_apart(&op, &[&x, &x]).unwrap());
    /// assert_eq!(fused.read().unwrap(), apart.read().unwrap());
    /// ```
    pub fn call_apart(self: &Arc<Self>, op: &Op, operands: &[&Array]) -> Result<Array> {
        let shapes: Vec<Shape> = operands.iter().map(|x| Shape::fixed(&x.shape)).collect();
        let shapes: Vec<&Shape> = shapes.iter().collect();
        let steps = op.definition(&shapes)?;
        if steps.is_empty() {
            return Err(Error::InvalidArgument(format!("{} stands for itself", op.name())));
        }
        op.infer(&shapes)?;
        let mut results = self.run_steps(&self.architecture, &steps, operands, Counts::default())?;
        results.pop().ok_or_else(|| Error::InvalidArgument(format!("{} stands for itself", op.name())))
    }

    /// The gradients of an op's operands, given the gradient of its result; `None` for an operand that has none, such
    /// as indices. If the derivative uses the result (as softmax's does), the result is recomputed when it is not
    /// passed.
    ///
    /// # Errors
    /// `Unsupported` for an op without a derivative, and of numbers that are the same everywhere; else as [`Engine::call`].
    ///
    /// ```
    /// use grilly::array::Engine;
    /// use grilly::dtype::DType;
    /// use grilly::ops::{Linear, Op};
    /// let engine = Engine::of("cpu").unwrap();
    /// let upload = |shape: &[usize], values: &[f32]| engine.upload(DType::F32, shape, bytemuck::cast_slice(values)).unwrap();
    /// let (x, weight, g) = (upload(&[1, 2], &[3.0, 4.0]), upload(&[1, 2], &[5.0, 6.0]), upload(&[1, 1], &[2.0]));
    /// let gradients = engine.vjp("", &Op::from(Linear::default()), &[&x, &weight], None, &g).unwrap();
    /// let numbers = |place: usize| gradients[place].as_ref().unwrap().read().unwrap();
    /// assert_eq!(numbers(0), bytemuck::cast_slice::<f32, u8>(&[10.0, 12.0]));
    /// assert_eq!(numbers(1), bytemuck::cast_slice::<f32, u8>(&[6.0, 8.0]));
    /// ```
    pub fn vjp(
        self: &Arc<Self>,
        architecture: &str,
        op: &Op,
        operands: &[&Array],
        result: Option<&Array>,
        gradient: &Array,
    ) -> Result<Vec<Option<Array>>> {
        self.shaders().numerics.check_trains(&format!("the gradient of {}", op.name()))?;
        let (mut shapes, counts) = call::shapes(op, operands);
        let missing = op.filled(&shapes.iter().collect::<Vec<_>>());
        let filled = missing.iter().map(|(number, shape)| self.filled(*number, &shape.sizes(counts)));
        let filled = filled.collect::<Result<Vec<_>>>()?;
        let operands: Vec<&Array> = operands.iter().copied().chain(&filled).collect();
        shapes.extend(missing.into_iter().map(|(_, shape)| shape));
        let shapes: Vec<&Shape> = shapes.iter().collect();
        let expected = Shape::fixed(&op.infer(&shapes)?.remove(0).sizes(counts));
        for (name, given) in [("gradient", Some(gradient)), ("result", result)] {
            if let Some(other) = given.map(|given| Shape::fixed(&given.shape)).filter(|shape| *shape != expected) {
                let problem = format!("{}: the {name} has shape {other}, expected {expected}", op.name());
                return Err(Error::InvalidArgument(problem));
            }
        }
        let vjp = op.vjp(&shapes).ok_or_else(|| vjp::none(op.name(), op))?;
        let constant = |(number, shape): &(f32, Shape)| self.filled(*number, &shape.sizes(counts));
        let constants = vjp.filled.iter().map(constant).collect::<Result<Vec<_>>>()?;
        let computed = match result {
            None if vjp.reads_result() => Some(self.call_as(architecture, op, &operands)?),
            _ => None,
        };
        // Where no step reads the result, the gradient serves as a placeholder.
        let result = result.or(computed.as_ref()).unwrap_or(gradient);
        let given: Vec<&Array> = operands.iter().copied().chain([result, gradient]).chain(&constants).collect();
        let results = self.run_steps(architecture, &vjp.steps, &given, counts)?;
        let taken = |term: &Option<Term>| term.as_ref().map(|term| take(term, &given, &results, counts)).transpose();
        vjp.gradients.iter().map(taken).collect()
    }

    /// An array filled with one number, cached on the device for later calls.
    fn filled(self: &Arc<Self>, number: f32, axes: &[usize]) -> Result<Array> {
        let key = (number.to_bits(), axes.to_vec());
        let lock = || self.filled.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(&key).cloned();
        if let Some(memory) = known {
            return Ok(Array::computed(self, memory, axes.to_vec(), DType::F32));
        }
        let numbers = memory::filled(axes.iter().product(), number, "a constant")?;
        let made = self.upload(DType::F32, axes, bytemuck::cast_slice(&numbers))?;
        let mut filled = lock();
        if filled.len() >= MOST_FILLED {
            filled.clear();
        }
        filled.insert(key, made.memory.clone());
        Ok(made)
    }

    /// Runs steps over `given` and returns all their results, in order.
    fn run_steps(
        self: &Arc<Self>,
        architecture: &str,
        steps: &[Step],
        given: &[&Array],
        counts: Counts,
    ) -> Result<Vec<Array>> {
        let mut results: Vec<Array> = Vec::new();
        for step in steps {
            let terms = step.operands.iter().map(|term| take(term, given, &results, counts));
            let terms = terms.collect::<Result<Vec<_>>>()?;
            let op = Hashed::from(step.op.clone());
            results.extend(self.call_all(architecture.into(), &op, &terms.iter().collect::<Vec<_>>())?);
        }
        Ok(results)
    }
}

/// The operand of a step: a given array or the result of an earlier step, in the shape that the step takes.
fn take(term: &Term, given: &[&Array], results: &[Array], counts: Counts) -> Result<Array> {
    let array = match term.from {
        Origin::Operand(place) => given[place].clone(),
        Origin::Step(place) => results[place].clone(),
    };
    match &term.shape {
        None => Ok(array),
        Some(shape) => array.reshape(&shape.sizes(counts)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{Softmax, SoftmaxBackward};

    #[test]
    fn a_result_that_a_derivative_reads_is_computed_where_it_is_not_given() {
        let engine = Engine::of("cpu").unwrap();
        let upload = |values: &[f32]| engine.upload(DType::F32, &[1, 3], bytemuck::cast_slice(values)).unwrap();
        let (x, g) = (upload(&[0.5, -1.0, 2.0]), upload(&[1.0, 0.0, 3.0]));
        let op = Op::from(Softmax::default());
        let y = engine.call(&op, &[&x]).unwrap();
        let expected = engine.call(&SoftmaxBackward {}.into(), &[&g, &y]).unwrap().read().unwrap();
        for result in [None, Some(&y)] {
            let found = engine.vjp("", &op, &[&x], result, &g).unwrap().remove(0).unwrap();
            assert_eq!(found.read().unwrap(), expected);
        }
    }

    #[test]
    fn arrays_of_one_number_are_made_once() {
        let engine = Engine::of("cpu").unwrap();
        let (ones, again) = (engine.filled(1.0, &[7]).unwrap(), engine.filled(1.0, &[7]).unwrap());
        assert_eq!(ones.read().unwrap(), again.read().unwrap());
        assert_eq!(engine.filled(0.0, &[7]).unwrap().read().unwrap(), vec![0; 28]);
        (0..2 * MOST_FILLED).for_each(|n| drop(engine.filled(1.0, &[n]).unwrap()));
        assert!(engine.filled.0.lock().unwrap().len() <= MOST_FILLED);
    }
}
