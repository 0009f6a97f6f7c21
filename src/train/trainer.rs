//! A model in training: its parameters and moments stay on the device.

mod numbers;
mod replica;
mod state;

pub(super) use state::check_memory;

use std::iter::once;

use numbers::Unread;
use replica::{Numbers, Replica, step_on_all};

use super::arena::Arena;
use super::update::dropout_key;
use super::{Batch, LossScale, Parameter, TrainOptions, TransformerConfig, Vocabulary};
use crate::array::Program;
use crate::backend::BackendKind;
use crate::{Error, Result, exit};

/// The numbers of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Number of the step, counted from 1.
    pub step: u64,
    /// Mean cross entropy of its tokens in nats, before the update.
    pub loss: f32,
    /// Norm of all gradients together, before they are scaled to `max_norm`. In float16 it may not be finite: the step then
    /// changed nothing, and the next ones scale the loss by less.
    pub norm: f32,
    /// Learning rate.
    pub rate: f64,
}

/// A model, its optimiser and its number of steps on a device.
///
/// A step is one submission per batch on a discrete GPU, elsewhere so many as its work needs, with the same bits; its tokens, the
/// rates and two factors go to the device, its loss and norm come back.
///
/// ```
/// use grilly::array::Engine;
/// use grilly::train::{Batch, TrainOptions, Trainer, TransformerConfig};
/// let sizes = TransformerConfig::tiny();
/// let config = TransformerConfig { d_model: 8, num_layers: 1, num_heads: 2, ffn_dim: 16, max_seq_len: 4, ..sizes };
/// let options = TrainOptions { batch_size: 2, learning_rate: 0.01, ..TrainOptions::default() };
/// let mut trainer = Trainer::new(&Engine::of("cpu").unwrap(), config, options).unwrap();
/// let batch = Batch::of(&[7; 10], 4).unwrap();
/// let losses: Vec<f32> = (0..20).map(|_| trainer.step(&batch).unwrap().loss).collect();
/// assert!(losses[19] < losses[0]);
/// ```
pub struct Trainer {
    /// On its first device, which evaluates and generates, too.
    pub(super) own: Replica,
    /// On further devices.
    others: Vec<Replica>,
    config: TransformerConfig,
    options: TrainOptions,
    vocabulary: Vocabulary,
    arena: Arena,
    step: u64,
    /// In float16.
    loss_scale: Option<LossScale>,
    /// Place of dropout's key among the inputs of a step.
    key: Option<usize>,
    evaluation: Program,
    /// Once something was generated.
    pub(super) decoding: Option<Program>,
    /// The last step, if its numbers could not be read.
    unread: Option<Unread>,
    /// Why its numbers are no longer usable.
    failed: Option<Failure>,
}

/// The kind of an error, and its text.
type Failure = (fn(String) -> Error, String);

impl Trainer {
    /// One step on `batch_size * accumulate` windows.
    ///
    /// # Errors
    /// `InvalidArgument` for another number of windows, or longer ones than the model takes; `IndexOutOfRange` for a
    /// token outside the vocabulary; `NotFinite` naming step and tensor if the loss or a gradient is not a number,
    /// after which the parameters are not usable; or a device fault. After `OutOfMemory` on a Vulkan device the same call
    /// can be made again: of a step that ran before there was no memory for its numbers, it reads these.
    pub fn step(&mut self, batch: &Batch) -> Result<Step> {
        self.check_usable()?;
        let TrainOptions { batch_size, accumulate, .. } = self.options;
        if batch.rows != batch_size.saturating_mul(accumulate) {
            let found = batch.rows;
            let problem = format!("the batch has {found} windows, expected {batch_size} times {accumulate}");
            return Err(Error::InvalidArgument(problem));
        }
        self.check_length(batch.length())?;
        if let Some(unread) = self.unread.take() {
            let same = unread.batch == *batch;
            let step = self.read_step(unread)?;
            if same {
                return Ok(step);
            }
        }
        let number = self.step + 1;
        let rate =
            self.options.learning_rate * self.options.schedule.factor(self.step, self.options.steps.unwrap_or(0));
        let scale = self.loss_scale.unwrap_or(LossScale { factor: 1.0, steady: 0, skipped: 0 });
        let optimizer = self.options.optimizer;
        let keys = self.key.map(|place| {
            let first = self.step * accumulate as u64;
            (place, (first..first + accumulate as u64).map(|number| dropout_key(self.options.seed, number)).collect())
        });
        let numbers = Numbers {
            rates: (optimizer.rates_shape(), optimizer.rates(&self.options, rate, number - scale.skipped)),
            max_norm: self.options.max_norm.map_or(f32::INFINITY, |norm| norm as f32),
            share: (f64::from(scale.factor) / batch.inputs.len() as f64) as f32,
            unscale: self.loss_scale.map(|_| 1.0 / scale.factor),
            keys,
        };
        let batches: Vec<Batch> = batch.parts(batch_size).collect();
        let done = match &mut self.others[..] {
            [] => self.own.step(&batches, &numbers).map(|outcome| vec![outcome]),
            others => step_on_all(&mut once(&mut self.own).chain(others).collect::<Vec<_>>(), &batches, &numbers),
        };
        let outcomes = match done {
            // Nothing has run: the step can be done when there is memory.
            Err(error @ Error::OutOfMemory { .. }) if self.own.engine.kind() == BackendKind::Vulkan => {
                return Err(error);
            }
            run => run.inspect_err(|error| self.note(number, error))?,
        };
        self.read_step(Unread { batch: batch.clone(), number, rate, outcomes })
    }

    /// The mean cross entropy of the tokens of a batch of any number of windows, computed `batch_size` at a time.
    ///
    /// # Errors
    /// As [`Trainer::step`].
    pub fn evaluate(&mut self, batch: &Batch) -> Result<f64> {
        self.check_usable()?;
        self.check_length(batch.length())?;
        let mut sum = 0.0;
        for part in batch.parts(self.options.batch_size) {
            exit::check()?;
            let inputs = self.own.inputs(&part)?;
            let outputs = self.evaluation.run(&inputs.iter().collect::<Vec<_>>())?;
            let losses = numbers::read(&outputs)?;
            sum += losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() * part.rows as f64;
        }
        Ok(sum / batch.rows as f64)
    }

    /// The model's sizes.
    pub fn config(&self) -> &TransformerConfig {
        &self.config
    }

    /// The settings.
    pub fn options(&self) -> &TrainOptions {
        &self.options
    }

    /// The tokens.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Names and shapes of the parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.arena.parameters
    }

    /// Steps done: updates of the parameters, also of a step whose numbers could not be read.
    pub fn steps_done(&self) -> u64 {
        self.step
    }

    /// Steps whose numbers were read.
    pub(super) fn steps_read(&self) -> u64 {
        self.step - u64::from(self.unread.is_some())
    }

    fn check_usable(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |(kind, failure)| Err(kind(failure.clone())))
    }

    pub(super) fn check_length(&self, length: usize) -> Result<()> {
        let most = self.config.max_seq_len;
        if length == 0 || length > most {
            let problem = format!("a sequence has {length} tokens, expected 1 to max_seq_len, {most}");
            return Err(Error::InvalidArgument(problem));
        }
        Ok(())
    }
}

const ADVICE: &str = "; resume from the last checkpoint with a smaller learning_rate, or with max_norm";
