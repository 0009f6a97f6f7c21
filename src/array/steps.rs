//! What an op is made of, step by step on arrays: a fused op's definition, and the gradients of an op's operands.

use std::sync::Arc;

use super::{Array, Engine};
use crate::dtype::DType;
use crate::ops::definition::{Origin, Step, Term};
use crate::ops::{Op, Shape};
use crate::{Error, Result};

impl Engine {
    /// The result of a fused op by its definition, one step after the other, each rounded to the type of its operands.
    ///
    /// # Errors
    /// `InvalidArgument` for an op that stands for itself, else as [`Engine::call`].
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
        let mut results = self.run_steps(&self.architecture, op, &steps, operands)?;
        results.pop().ok_or_else(|| Error::InvalidArgument(format!("{} stands for itself", op.name())))
    }

    /// The gradients of an op's operands, given that of its result, and for ops whose derivative is written with it (softmax)
    /// the result; `None` for an operand that has none, such as indices.
    ///
    /// # Errors
    /// `Unsupported` for an op without a derivative, else as [`Engine::call`].
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
        let shapes: Vec<Shape> = operands.iter().map(|x| Shape::fixed(&x.shape)).collect();
        let shapes: Vec<&Shape> = shapes.iter().collect();
        let expected = op.infer(&shapes)?.remove(0);
        for (name, given) in [("gradient", Some(gradient)), ("result", result)] {
            if let Some(other) = given.map(|given| Shape::fixed(&given.shape)).filter(|shape| *shape != expected) {
                let problem = format!("{}: the {name} has shape {other}, expected {expected}", op.name());
                return Err(Error::InvalidArgument(problem));
            }
        }
        let vjp = op.vjp(&shapes).ok_or_else(|| Error::Unsupported {
            what: format!("the derivative of {}", op.name()),
            reason: "it has none".into(),
        })?;
        let constant = |(number, shape): &(f32, Shape)| {
            let axes = shape.fixed_axes(op.name(), "a constant")?;
            self.upload(DType::F32, &axes, bytemuck::cast_slice(&vec![*number; axes.iter().product()]))
        };
        let constants = vjp.filled.iter().map(constant).collect::<Result<Vec<_>>>()?;
        let given: Vec<&Array> =
            operands.iter().copied().chain([result.unwrap_or(gradient), gradient]).chain(&constants).collect();
        let results = self.run_steps(architecture, op, &vjp.steps, &given)?;
        let taken = |term: &Option<Term>| term.as_ref().map(|term| take(op, term, &given, &results)).transpose();
        vjp.gradients.iter().map(taken).collect()
    }

    /// The results of steps over `given`, in order.
    fn run_steps(
        self: &Arc<Self>,
        architecture: &str,
        op: &Op,
        steps: &[Step],
        given: &[&Array],
    ) -> Result<Vec<Array>> {
        let mut results: Vec<Array> = Vec::new();
        for step in steps {
            let terms = step.operands.iter().map(|term| take(op, term, given, &results)).collect::<Result<Vec<_>>>()?;
            results.push(self.call_as(architecture, &step.op, &terms.iter().collect::<Vec<_>>())?);
        }
        Ok(results)
    }
}

/// An operand of a step: something given or an earlier step's result, in the shape the step sees.
fn take(op: &Op, term: &Term, given: &[&Array], results: &[Array]) -> Result<Array> {
    let array = match term.from {
        Origin::Operand(place) => given[place].clone(),
        Origin::Step(place) => results[place].clone(),
    };
    match &term.shape {
        None => Ok(array),
        Some(shape) => array.reshape(&shape.fixed_axes(op.name(), "a view")?),
    }
}
