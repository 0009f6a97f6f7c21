//! Rules of the update: their states, their rates, and the nodes of one update.

use serde::{Deserialize, Serialize};

use super::TrainOptions;
use super::graph::{GRADIENTS, STATES, state_like};
use super::schedule::power;
use crate::Result;
use crate::dtype::DType;
use crate::graph::{Graph, ValueId};
use crate::ops::{Adam, Binary, BinaryKind, ClipNorm, Counts, Op, Reduce, ReduceKind, Sgd, Shape};

/// The rule by which a step changes the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimizer {
    /// Adam (Kingma and Ba 2015); `weight_decay` times a parameter is added to its gradient.
    Adam,
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
    #[default]
    AdamW,
    /// Gradient descent with `momentum` (Sutskever et al. 2013); `weight_decay` times a parameter is added to its gradient.
    Sgd,
}

/// Most elements of the arrays that one op takes: 128 MiB, which every device binds.
const MOST: usize = 1 << 25;

impl Optimizer {
    /// The kinds of state that checkpoints have, by what stands before the name of the parameter.
    pub(super) fn kinds(self) -> &'static [&'static str] {
        match self {
            Optimizer::Adam | Optimizer::AdamW => &["", "m.", "v."],
            Optimizer::Sgd => &["", "m."],
        }
    }

    /// The shape of the rates of a step.
    pub(super) fn rates_shape(self) -> &'static [usize] {
        match self {
            Optimizer::Adam | Optimizer::AdamW => &[3],
            Optimizer::Sgd => &[],
        }
    }

    /// The rates of update `number`, counted from 1.
    pub(super) fn rates(self, options: &TrainOptions, rate: f64, number: u64) -> Vec<f32> {
        // Of the decays as the device has them, so that the weights of all gradients sum to 1.
        let correction = |beta: f64| (1.0 - power(f64::from(beta as f32), number)) as f32;
        match self {
            Optimizer::Adam | Optimizer::AdamW => {
                let [c1, c2] = options.betas.map(correction);
                vec![rate as f32, c1, c2]
            }
            Optimizer::Sgd => vec![rate as f32],
        }
    }

    fn op(self, options: &TrainOptions) -> Op {
        let [beta1, beta2] = options.betas.map(|beta| beta as f32);
        let (eps, weight_decay) = (options.eps as f32, options.weight_decay as f32);
        let adam = Adam { beta1, beta2, eps, ..Adam::default() };
        match self {
            Optimizer::Adam => Adam { coupled: weight_decay, ..adam }.into(),
            Optimizer::AdamW => Adam { decay: weight_decay, ..adam }.into(),
            Optimizer::Sgd => Sgd { momentum: options.momentum as f32, decay: weight_decay }.into(),
        }
    }
}

/// The update by gradients given to it. Inputs: the gradients, then those of [`update`]. Output: their norm.
pub(super) fn application(size: usize, options: &TrainOptions) -> Result<Graph> {
    let (mut graph, all) = (Graph::new(), Shape::fixed(&[size]));
    graph.state(STATES[0], all.clone(), DType::F32);
    state_like(&mut graph, GRADIENTS);
    let gradients = graph.input("gradients", all, DType::F32);
    let norm = update(&mut graph, gradients, options)?;
    graph.outputs = vec![norm];
    Ok(graph)
}

/// A step of the optimiser with the gradients scaled to a norm of at most `max_norm`; if a gradient is not finite, nothing
/// changes. Returns the norm. Adds the states after the gradients, and the inputs `rates` and `max_norm`, infinite for none,
/// then for float16 `unscale`, by which gradients are multiplied first.
pub(super) fn update(graph: &mut Graph, gradients: ValueId, options: &TrainOptions) -> Result<ValueId> {
    let optimizer = options.optimizer;
    let rates = graph.input("rates", Shape::fixed(optimizer.rates_shape()), DType::F32);
    let mut numbers = vec![graph.input("max_norm", Shape::fixed(&[]), DType::F32)];
    if options.dtype == DType::F16 {
        numbers.push(graph.input("unscale", Shape::fixed(&[]), DType::F32));
    }
    let mut states = vec![graph.states[0]];
    states.extend((2..=optimizer.kinds().len()).map(|place| state_like(graph, place)));
    let size = graph.value(gradients).shape.elements(Counts::default());
    let part = |graph: &mut Graph, of: ValueId, first: usize| {
        let name = graph.value(of).name.clone();
        graph.slice(&name, of, first, Shape::fixed(&[MOST.min(size - first)]))
    };
    let mut total = None;
    for first in (0..size).step_by(MOST) {
        let own = part(graph, gradients, first)?;
        let own = graph.node("squares", Reduce::rows(ReduceKind::Sum), &[own, own])?;
        total = Some(match total {
            None => own,
            Some(sum) => graph.node("squares", Binary::from(BinaryKind::Add), &[sum, own])?,
        });
    }
    numbers.insert(0, total.expect("a model has parameters"));
    let [norm, factor] = graph.apply("gradient norm", ClipNorm {}, &numbers)?[..] else { unreachable!("two results") };
    let op = optimizer.op(options);
    for first in (0..size).step_by(MOST) {
        let mut operands = Vec::with_capacity(6);
        for of in states.iter().chain([&gradients]) {
            operands.push(part(graph, *of, first)?);
        }
        operands.extend([rates, factor]);
        graph.apply(op.name(), op.clone(), &operands)?;
    }
    Ok(norm)
}
