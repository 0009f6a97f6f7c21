//! A command as calls of ops, or as a dispatch of a user's function.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::command::Buffer;
use super::functions::{BitNetShaderFunction, Row};
use super::shaders::{ComputePipeline, Runs};
use grilly::array::{Array, Dispatch, Engine, Hashed};
use grilly::compiler::{BufferName, ComputeFunction};
use grilly::dtype::DType;
use grilly::ops::{Levels, Op};
use grilly::{Error, Result};

/// A command.
pub(super) struct Call {
    pub(super) pipeline: ComputePipeline,
    /// By index, with the shape in which each is seen if it is not its own.
    pub(super) buffers: BTreeMap<usize, (Buffer, Option<Vec<usize>>)>,
    pub(super) numbers: BTreeMap<String, f64>,
    pub(super) threads: [u32; 3],
    pub(super) threadgroup: [u32; 3],
}

impl Call {
    pub(super) fn run(&self, engine: &Arc<Engine>) -> Result<()> {
        let expected = self.pipeline.threadgroup();
        if self.threadgroup != expected {
            return Err(self.fault(format!("groups of {:?} threads, expected {expected:?}", self.threadgroup)));
        }
        match &self.pipeline.runs {
            Runs::Own(row) => self.own(engine, row),
            Runs::Users(function, _) => self.users(engine, function),
        }
    }

    fn own(&self, engine: &Arc<Engine>, row: &'static Row) -> Result<()> {
        if let Some(other) = self.buffers.keys().find(|index| **index >= row.buffers.len()) {
            return Err(self.fault(format!("there is no buffer {other}, only {}", row.buffers.join(", "))));
        }
        if let Some(other) = self.numbers.keys().find(|name| row.numbers.iter().all(|(known, _)| known != name)) {
            let known: Vec<&str> = row.numbers.iter().map(|(name, _)| *name).collect();
            return Err(self.fault(format!("there is no number {other:?}; its numbers are {known:?}")));
        }
        let own = Own { call: self, engine, row };
        let places = (0..row.buffers.len()).filter(|index| row.buffers[*index].ends_with('!'));
        let results = own.results()?;
        let threads: u64 = self.threads.iter().map(|n| u64::from(*n)).product();
        if let Some(elements) = results.first().map(Array::elements).filter(|elements| (*elements as u64) > threads) {
            return Err(self.fault(format!("{threads} threads, expected one for each of {elements} elements")));
        }
        for (index, result) in places.zip(&results) {
            let name = row.buffers[index].trim_end_matches('!');
            let (buffer, _) = self.buffers.get(&index).ok_or_else(|| own.missing(name))?;
            buffer.take(&format!("{}: {name}", row.name), result)?;
        }
        Ok(())
    }

    fn users(&self, engine: &Arc<Engine>, function: &ComputeFunction) -> Result<()> {
        let mut buffers = Vec::with_capacity(self.buffers.len());
        for (index, (buffer, _)) in &self.buffers {
            let place = u32::try_from(*index).map(BufferName::from).ok().filter(|name| function.place(name).is_ok());
            let place = place.ok_or_else(|| self.fault(format!("there is no binding {index}")))?;
            buffers.push((place, buffer.array().into()));
        }
        let push = self.numbers.iter().map(|(name, number)| (name.clone(), *number)).collect();
        let [x, y, z] = [0, 1, 2].map(|axis| self.threads[axis].div_ceil(self.threadgroup[axis].max(1)));
        let dispatch = Dispatch { function, groups: [x, y, z], buffers, push, constants: Vec::new() };
        for (place, result) in engine.dispatch(dispatch)? {
            let given = self.buffers.iter().find(|(index, _)| u32::try_from(**index).is_ok_and(|n| place == n.into()));
            if let Some((_, (buffer, _))) = given {
                buffer.take(&place.to_string(), &result)?;
            }
        }
        Ok(())
    }

    fn fault(&self, problem: String) -> Error {
        Error::InvalidArgument(format!("{}: {problem}", self.pipeline.name()))
    }
}

/// A function of the table with its buffers.
struct Own<'a> {
    call: &'a Call,
    engine: &'a Arc<Engine>,
    row: &'static Row,
}

impl Own<'_> {
    /// The results, in the order of the buffers that hold them.
    fn results(&self) -> Result<Vec<Array>> {
        use BitNetShaderFunction::*;
        match self.row.function {
            BitLinearForward => {
                let x = self.given("input")?;
                let rounded = self.all("quantize_rows", json!({}), &[&x])?;
                let (weights, levels, scope, scale) = self.weights(x.shape().last().copied().unwrap_or(1))?;
                let bias = self.optional("bias")?;
                let attributes = json!({"levels": levels, "scope": scope, "bias": bias.is_some()});
                let operands: Vec<&Array> = rounded.iter().chain([&weights, &scale]).chain(&bias).collect();
                self.all("quantized_linear", attributes, &operands)
            }
            BitLinearBackwardInput => {
                let (g, columns) = (self.given("grad_output")?, self.seen("grad_input!")?.last().copied().unwrap_or(1));
                let weights = self.floats_of_weights(columns)?;
                self.all("matmul", json!({}), &[&flat(&g)?, &weights])
            }
            BitLinearBackwardWeight => {
                let (g, x) = (self.given("grad_output")?, self.given("input")?);
                let rounded = self.all("quantize_rows", json!({}), &[&x])?;
                let x = self.one("dequantize_rows", json!({}), &rounded.iter().collect::<Vec<_>>())?;
                self.all("matmul", json!({"transpose_a": true}), &[&flat(&g)?, &flat(&x)?])
            }
            MixedPrecisionMatmul => {
                let x = self.given("input")?;
                let weights = self.floats_of_weights(x.shape().last().copied().unwrap_or(1))?;
                self.all("linear", json!({}), &[&x, &weights])
            }
            BinarizeWeights => self.rounded("weights", json!({"kind": "binary", "scope": "tensor"})),
            QuantizeActivations => self.rounded("input", json!({})),
            QuantizeWeights1Bit => self.rounded("weights", json!({"kind": "binary", "scope": self.group()?})),
            QuantizeActivations8Bit => self.rounded("input", json!({"kind": "affine"})),
            DynamicQuantizeActivations => self.rounded("input", json!({"kind": "affine", "scope": "tensor"})),
            QuantizeGradients => self.rounded("gradients", json!({"scope": "tensor", "seed": self.whole("seed")?})),
            DequantizeWeights1Bit => {
                let columns = self.seen("output!")?.last().copied();
                let attributes = json!({"levels": "binary", "scope": self.group()?, "columns": columns});
                self.all("dequantize_rows", attributes, &[&self.given("weights")?, &self.given("scale")?])
            }
            DequantizeActivations8Bit => {
                let zero = self.optional("zero")?;
                let (q, scale) = (self.given("input")?, self.given("scale")?);
                let operands: Vec<&Array> = [&q, &scale].into_iter().chain(&zero).collect();
                self.all("dequantize_rows", json!({"zero": zero.is_some()}), &operands)
            }
            ReluForward => self.activation("relu"),
            GeluForward => self.activation("gelu_tanh"),
            SwishForward => self.activation("silu"),
            SigmoidForward => self.activation("sigmoid"),
            TanhForward => self.activation("tanh"),
            LeakyReluForward => self.activation("leaky_relu"),
            ReluBackward => self.activation_backward("relu"),
            GeluBackward => self.activation_backward("gelu_tanh"),
            SwishBackward => self.activation_backward("silu"),
            SigmoidBackward => self.activation_backward("sigmoid"),
            TanhBackward => self.activation_backward("tanh"),
            LeakyReluBackward => self.activation_backward("leaky_relu"),
            SoftmaxForward => self.all("softmax", json!({}), &[&self.given("input")?]),
            SoftmaxBackward => {
                self.all("softmax_backward", json!({}), &[&self.given("grad_output")?, &self.given("output")?])
            }
            LayerNormForward => {
                let [x, weight, bias] = [self.given("input")?, self.given("weight")?, self.given("bias")?];
                self.all("layer_norm", json!({"eps": self.number("eps")}), &[&x, &weight, &bias])
            }
            FusedReluDropout => {
                let y = self.one("activation", json!({"kind": "relu"}), &[&self.given("input")?])?;
                self.all("dropout", json!({"p": self.number("p"), "seed": self.whole("seed")?}), &[&y])
            }
            User { .. } => Err(self.call.fault("it is a function of a user's shader".into())),
        }
    }

    fn rounded(&self, buffer: &str, attributes: Value) -> Result<Vec<Array>> {
        self.all("quantize_rows", attributes, &[&self.given(buffer)?])
    }

    /// The attributes of an activation, whose slope is a number of the function if it has one.
    fn kind(&self, kind: &str) -> Value {
        let slopes = self.row.numbers.iter().any(|(name, _)| *name == "negative_slope");
        json!({"kind": kind, "a": if slopes { self.number("negative_slope") } else { 1.0 }})
    }

    fn activation(&self, kind: &str) -> Result<Vec<Array>> {
        self.all("activation", self.kind(kind), &[&self.given("input")?])
    }

    fn activation_backward(&self, kind: &str) -> Result<Vec<Array>> {
        self.all("activation_backward", self.kind(kind), &[&self.given("grad_output")?, &self.given("input")?])
    }

    /// A quantised weight of so many columns: itself, its values, what shares a scale, and the scales.
    fn weights(&self, columns: usize) -> Result<(Array, &'static str, Value, Array)> {
        let weights = self.given("weights")?;
        let bytes = weights.shape().last().copied().unwrap_or_default();
        let levels = match weights.dtype() {
            DType::I8 => "int8",
            _ if bytes == Levels::Binary.bytes(columns) => "binary",
            _ => "ternary",
        };
        let scale = match self.optional("weight_scale")? {
            Some(scale) => scale,
            None => self.engine.upload(DType::F32, &[1], &1f32.to_le_bytes())?,
        };
        let scope = match scale.shape() {
            [1] => json!("tensor"),
            [_] => json!("row"),
            _ => self.group()?,
        };
        Ok((weights, levels, scope, scale))
    }

    /// A quantised weight as floats.
    fn floats_of_weights(&self, columns: usize) -> Result<Array> {
        let (weights, levels, scope, scale) = self.weights(columns)?;
        let mut attributes = json!({"levels": levels, "scope": scope});
        if levels != "int8" {
            attributes["columns"] = json!(columns);
        }
        self.one("dequantize_rows", attributes, &[&weights, &scale])
    }

    fn all(&self, op: &str, attributes: Value, operands: &[&Array]) -> Result<Vec<Array>> {
        self.engine.call_all("".into(), &Hashed::from(Op::from_attributes(op, attributes)?), operands)
    }

    fn one(&self, op: &str, attributes: Value, operands: &[&Array]) -> Result<Array> {
        Ok(self.all(op, attributes, operands)?.swap_remove(0))
    }

    fn number(&self, name: &str) -> f64 {
        let known = self.row.numbers.iter().find(|(known, _)| *known == name).map(|(_, default)| *default);
        self.call.numbers.get(name).copied().or(known).unwrap_or_default()
    }

    fn whole(&self, name: &str) -> Result<u64> {
        let number = self.number(name);
        if number.fract() == 0.0 && (0.0..9e15).contains(&number) {
            return Ok(number as u64);
        }
        Err(self.call.fault(format!("{name} is {number}, expected a whole number from 0 to 9e15")))
    }

    fn group(&self) -> Result<Value> {
        match self.whole("group_size")? {
            0 => Err(self.call.fault("group_size is missing, the columns that share a scale".into())),
            size => Ok(json!(size)),
        }
    }

    fn given(&self, name: &str) -> Result<Array> {
        self.optional(name)?.ok_or_else(|| self.missing(name))
    }

    fn optional(&self, name: &str) -> Result<Option<Array>> {
        let place = self.place(name);
        let bound = place.and_then(|place| self.call.buffers.get(&place));
        let seen = |(buffer, shape): &(Buffer, Option<Vec<usize>>)| match shape {
            Some(shape) => buffer.array().reshape(shape),
            None => Ok(buffer.array()),
        };
        bound.map(seen).transpose()
    }

    /// The shape in which the buffer of a result is seen.
    fn seen(&self, name: &str) -> Result<Vec<usize>> {
        Ok(self.given(name)?.shape().to_vec())
    }

    fn place(&self, name: &str) -> Option<usize> {
        let bare = |name: &str| name.trim_end_matches(['?', '!']).to_owned();
        self.row.buffers.iter().position(|known| bare(known) == bare(name))
    }

    fn missing(&self, name: &str) -> Error {
        let index = self.place(name).unwrap_or_default();
        self.call.fault(format!("buffer {index}, {}, is not set", name.trim_end_matches('!')))
    }
}

/// An array as a matrix of its last axis.
fn flat(x: &Array) -> Result<Array> {
    let columns = x.shape().last().copied().unwrap_or(1);
    x.reshape(&[x.elements() / columns.max(1), columns])
}
