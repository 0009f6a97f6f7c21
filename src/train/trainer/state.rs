//! The state of a model in training: from a seed, from a checkpoint, and to one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::replica::Replica;
use super::{ADVICE, Trainer};
use crate::array::{Array, Engine};
use crate::dtype::DType;
use crate::model::shaders;
use crate::ops::Counts;
use crate::process::memory::{filled, reserved};
use crate::tensor::Part;
use crate::train::arena::Arena;
use crate::train::checkpoint::unfit_of;
use crate::train::folder::fault;
use crate::train::graph::{GRADIENTS, Model};
use crate::train::initial::initial;
use crate::train::update::Update;
use crate::train::{Checkpoint, Parameter, Tensor, TokenKind, TrainOptions, TransformerConfig, Vocabulary, need};
use crate::{Error, Result, exit};

impl Trainer {
    /// A model with the initial parameters of the seed.
    ///
    /// # Errors
    /// `InvalidArgument` for sizes or settings out of range; `Unsupported`, `OutOfMemory`, or a device fault.
    pub fn new(engine: &Arc<Engine>, config: TransformerConfig, options: TrainOptions) -> Result<Self> {
        Trainer::of(engine, config, options, &Vocabulary::default())
    }

    /// As [`Trainer::new`], with the tokens of a vocabulary.
    pub(in crate::train) fn of(
        engine: &Arc<Engine>,
        config: TransformerConfig,
        options: TrainOptions,
        vocabulary: &Vocabulary,
    ) -> Result<Self> {
        check_numerics()?;
        check_memory(&config, &options)?;
        let (Arena { parameters, .. }, kinds) = (Model::new(&config)?.arena(), options.optimizer.kinds());
        let mut tensors = Vec::with_capacity(kinds.len() * parameters.len());
        for (place, parameter) in parameters.iter().enumerate() {
            exit::check()?;
            let bytes = copied(bytemuck::cast_slice(&initial(&config, parameter, place, options.seed)?), parameter)?;
            tensors.push(Tensor { name: parameter.name.clone(), shape: parameter.shape.clone(), bytes });
        }
        for moment in &kinds[1..] {
            for parameter in &parameters {
                let bytes = filled(DType::F32.bytes(parameter.elements()), 0, &parameter.name)?;
                let name = format!("{moment}{}", parameter.name);
                tensors.push(Tensor { name, shape: parameter.shape.clone(), bytes });
            }
        }
        let tokenizer = vocabulary.json().map(str::to_owned);
        let checkpoint =
            Checkpoint { step: 0, config, options, data: None, tokenizer, loss_scale: None, metrics: None, tensors };
        Trainer::resume(engine, checkpoint)
    }

    /// The model of the newest checkpoint in a folder.
    ///
    /// # Errors
    /// `Checkpoint` for a folder without one, or whose newest is damaged; else as [`Trainer::resume`].
    pub fn newest(engine: &Arc<Engine>, folder: &Path) -> Result<Self> {
        let found = Checkpoint::newest(folder)?.ok_or_else(|| fault(folder, "has no checkpoint"))?;
        let unfit = unfit_of(folder, found.step);
        Trainer::resume(engine, found).map_err(unfit)
    }

    /// The model of a checkpoint, which goes on with every bit as if it had not stopped.
    ///
    /// # Errors
    /// `InvalidArgument` for tensors that are not those of its configuration and optimiser, else as [`Trainer::new`].
    pub fn resume(engine: &Arc<Engine>, checkpoint: Checkpoint) -> Result<Self> {
        let Checkpoint { step, config, options, tokenizer, loss_scale, tensors, .. } = checkpoint;
        check_numerics()?;
        options.check()?;
        let loss_scale = (options.dtype == DType::F16).then(|| loss_scale.unwrap_or_default());
        let vocabulary = match (options.tokenizer, tokenizer) {
            (TokenKind::Bytes, _) => Vocabulary::default(),
            (TokenKind::Bpe, Some(tokenizer)) => Vocabulary::read(tokenizer)?,
            (TokenKind::Bpe, None) => {
                return Err(Error::InvalidArgument(
                    "tokenizer \"bpe\" is learned from a text, and there is none".into(),
                ));
            }
        };
        options.schedule.check_length(options.steps)?;
        check_memory(&config, &options)?;
        let trained = Model::new(&config)?;
        let (arena, key) = (trained.arena(), trained.key);
        let table = |part: &Part| {
            let shape = part.shape.as_deref().unwrap_or_default();
            engine.upload(DType::F32, shape, part.computed.as_deref().unwrap_or_default())
        };
        let tables = trained.tables.iter().map(table).collect::<Result<_>>()?;
        let model = || Model::new(&config.without_dropout());
        let mut states = arena.arrays(options.optimizer.kinds(), tensors)?;
        // Nothing writes between the tensors.
        states.insert(GRADIENTS, filled(states[0].len(), 0, "gradients")?);
        // Each is freed once it is on the device.
        let states = states.into_iter().map(|bytes| engine.upload(DType::F32, &[arena.size], &bytes));
        let states = states.collect::<Result<Vec<_>>>()?;
        let (rows, length) = (options.batch_size, config.max_seq_len);
        let most = Counts::new(tokens(rows, length)?, rows);
        let update = Update::new(engine, &config, &options, &states.iter().collect::<Vec<_>>())?;
        let evaluation = update.program().beside(model()?.evaluation()?, most)?;
        let own = Replica::new(engine, update, tables);
        let (others, decoding, unread, failed) = Default::default();
        Ok(Trainer {
            own,
            others,
            config,
            options,
            vocabulary,
            arena,
            step,
            loss_scale,
            key,
            evaluation,
            decoding,
            unread,
            failed,
        })
    }

    /// Lets further devices, of the kind and driver of its own, share the batches of each step: its shards are computed at once,
    /// and their sums added in order on every device, so that the bits are those of one device with as many shards.
    ///
    /// # Errors
    /// `InvalidArgument` for shards that cannot be shared equally; else as [`Trainer::new`].
    ///
    /// ```
    /// use grilly::array::Engine;
    /// use grilly::train::{TrainOptions, Trainer, TransformerConfig};
    /// let options = TrainOptions { batch_size: 2, accumulate: 2, ..TrainOptions::default() };
    /// let mut trainer = Trainer::new(&Engine::of("cpu").unwrap(), TransformerConfig::tiny(), options).unwrap();
    /// let error = trainer.share(&[Engine::of("cpu").unwrap()]).unwrap_err().to_string();
    /// assert_eq!(error, "shards is 1, expected a multiple of the devices, 2");
    /// ```
    pub fn share(&mut self, others: &[Arc<Engine>]) -> Result<()> {
        let devices = 1 + others.len();
        let shared = self.options.shards.is_multiple_of(devices) && self.options.accumulate > 1;
        need("shards", &self.options.shards, shared, &format!("a multiple of the devices, {devices}"))?;
        let (states, own) = (self.own.update.program().states(), &self.own);
        let on = |engine: &Arc<Engine>, array: &Array| engine.upload(array.dtype(), array.shape(), &array.read()?);
        let replica = |engine: &Arc<Engine>| {
            let tables = own.tables.iter().map(|table| on(engine, table)).collect::<Result<_>>()?;
            let states = states.iter().map(|state| on(engine, state)).collect::<Result<Vec<_>>>()?;
            let update = Update::new(engine, &self.config, &self.options, &states.iter().collect::<Vec<_>>())?;
            Ok(Replica::new(engine, update, tables))
        };
        self.others = others.iter().map(replica).collect::<Result<_>>()?;
        Ok(())
    }

    /// The state after the steps so far.
    ///
    /// # Errors
    /// `NotFinite` for a number that is not finite, and after a step that failed with it; `Unusable` after a device
    /// fault in a step; or a device fault.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        self.check_usable()?;
        let (step, config, options) = (self.step, self.config.clone(), self.options.clone());
        let (mut states, kinds) = (self.own.update.program().states(), self.options.optimizer.kinds());
        states.remove(GRADIENTS);
        let mut tensors = Vec::with_capacity(kinds.len() * self.arena.parameters.len());
        for (kind, array) in kinds.iter().zip(states) {
            for (parameter, bytes) in self.arena.parts(&array.read()?) {
                exit::check()?;
                let name = format!("{kind}{}", parameter.name);
                if !DType::F32.is_finite(bytes) {
                    return Err(Error::NotFinite(format!("step {step}: {name} is not finite{ADVICE}")));
                }
                tensors.push(Tensor { name, shape: parameter.shape.clone(), bytes: copied(bytes, parameter)? });
            }
        }
        let (tokenizer, loss_scale) = (self.vocabulary.json().map(str::to_owned), self.current_scale()?);
        Ok(Checkpoint { step, config, options, data: None, tokenizer, loss_scale, metrics: None, tensors })
    }

    /// The SHA-256 of every parameter and moment by name.
    ///
    /// # Errors
    /// As [`Trainer::checkpoint`].
    pub fn hashes(&self) -> Result<BTreeMap<String, String>> {
        self.checkpoint()?.checked_hashes()
    }
}

/// Refuses a model in training where numbers are the same everywhere.
fn check_numerics() -> Result<()> {
    shaders::read().numerics.check_trains("a trainer")
}

/// The tokens of a batch.
///
/// # Errors
/// `InvalidArgument` for more than kernels count.
fn tokens(rows: usize, length: usize) -> Result<usize> {
    let tokens = rows.checked_mul(length).filter(|tokens| *tokens <= i32::MAX as usize);
    let wrong = || Error::InvalidArgument(format!("batch_size is {rows}, too large for windows of {length}"));
    tokens.ok_or_else(wrong)
}

/// Checks that memory holds the model before any of it is made.
pub(in crate::train) fn check_memory(config: &TransformerConfig, options: &TrainOptions) -> Result<()> {
    config.check()?;
    // Beside the arrays on the device there is one more, until it is there.
    let tokens = options.batch_size.saturating_mul(config.max_seq_len);
    config.check_memory(options.optimizer.kinds().len() + 1, tokens)
}

/// A copy of the bytes of a parameter.
fn copied(bytes: &[u8], parameter: &Parameter) -> Result<Vec<u8>> {
    let mut copy = reserved(bytes.len(), &parameter.name)?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}
