//! A model in training: its parameters and moments stay on the device.

mod numbers;
mod state;

pub(super) use state::check_memory;

use std::collections::HashMap;
use std::sync::Arc;

use numbers::Unread;

use super::arena::Arena;
use super::update::{Update, dropout_key};
use super::{Batch, LossScale, Parameter, TrainOptions, TransformerConfig, Vocabulary};
use crate::array::{Array, Engine, Program};
use crate::backend::BackendKind;
use crate::dtype::DType;
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
    pub(super) engine: Arc<Engine>,
    config: TransformerConfig,
    options: TrainOptions,
    vocabulary: Vocabulary,
    arena: Arena,
    step: u64,
    /// In float16.
    loss_scale: Option<LossScale>,
    pub(super) update: Update,
    /// Place of dropout's key among the inputs of a step.
    key: Option<usize>,
    /// Of the model.
    pub(super) tables: Vec<Array>,
    evaluation: Program,
    /// Once something was generated.
    pub(super) decoding: Option<Program>,
    /// Positions and boundaries of the sequences of a batch, by their number and length.
    sequences: HashMap<[usize; 2], [Array; 2]>,
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
        let rates = optimizer.rates(&self.options, rate, number - scale.skipped);
        let rates = self.floats(optimizer.rates_shape(), &rates)?;
        let max_norm = self.floats(&[], &[self.options.max_norm.map_or(f32::INFINITY, |norm| norm as f32)])?;
        let share = self.floats(&[], &[(f64::from(scale.factor) / batch.inputs.len() as f64) as f32])?;
        let unscale = self.loss_scale.map(|_| self.floats(&[], &[1.0 / scale.factor])).transpose()?;
        let mut parts = batch.parts(batch_size).map(|part| self.inputs(&part)).collect::<Result<Vec<_>>>()?;
        if let Some(place) = self.key {
            for (part, number) in parts.iter_mut().zip(self.step * accumulate as u64..) {
                part.insert(place, self.indices(&dropout_key(self.options.seed, number))?);
            }
        }
        let rest: Vec<&Array> = [&rates, &max_norm].into_iter().chain(&unscale).collect();
        let outcome = match self.update.run(&parts, &share, &rest) {
            // Nothing has run: the step can be done when there is memory.
            Err(error @ Error::OutOfMemory { .. }) if self.engine.kind() == BackendKind::Vulkan => return Err(error),
            run => run.inspect_err(|error| self.note(number, error))?,
        };
        self.read_step(Unread { batch: batch.clone(), number, rate, outcome })
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
            let inputs = self.inputs(&part)?;
            let outputs = self.evaluation.run(&inputs.iter().collect::<Vec<_>>())?;
            let losses = self.numbers(&outputs.iter().collect::<Vec<_>>())?;
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

    /// The only element of each array.
    fn numbers(&self, arrays: &[&Array]) -> Result<Vec<f32>> {
        Ok(self.engine.read(arrays)?.iter().map(|bytes| bytemuck::pod_read_unaligned(bytes)).collect())
    }

    fn floats(&self, shape: &[usize], numbers: &[f32]) -> Result<Array> {
        self.engine.upload(DType::F32, shape, bytemuck::cast_slice(numbers))
    }

    pub(super) fn indices(&self, numbers: &[u32]) -> Result<Array> {
        self.engine.upload(DType::U32, &[numbers.len()], bytemuck::cast_slice(numbers))
    }

    /// What the model reads of sequences of one length: all but the tokens goes to the device once.
    fn read(&mut self, rows: usize, tokens: &[u32]) -> Result<Vec<Array>> {
        let length = tokens.len() / rows.max(1);
        if !self.sequences.contains_key(&[rows, length]) {
            let positions: Vec<u32> = (0..rows).flat_map(|_| 0..length as u32).collect();
            let offsets: Vec<u32> = (0..=rows).map(|row| (row * length) as u32).collect();
            let made = [self.indices(&positions)?, self.indices(&offsets)?];
            self.sequences.insert([rows, length], made);
        }
        let [positions, offsets] = self.sequences[&[rows, length]].clone();
        let mut inputs = vec![self.indices(tokens)?, positions, offsets];
        inputs.extend(self.tables.iter().cloned());
        Ok(inputs)
    }

    fn inputs(&mut self, batch: &Batch) -> Result<Vec<Array>> {
        let mut inputs = self.read(batch.rows, &batch.inputs)?;
        inputs.push(self.indices(&batch.targets)?);
        Ok(inputs)
    }
}

const ADVICE: &str = "; resume from the last checkpoint with a smaller learning_rate, or with max_norm";
