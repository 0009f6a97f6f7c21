//! How gradients reach the parameters: within one program, or as sums over several batches.

use std::sync::Arc;

use super::graph::{GRADIENTS, Model};
use super::optimizer::application;
use super::{TrainOptions, TransformerConfig};
use crate::array::{Array, Engine, Program};
use crate::dtype::DType;
use crate::ops::rng::philox;
use crate::ops::{BinaryKind, Counts, Op};
use crate::process::memory::filled;
use crate::{Error, Result, exit};

/// The programs of a step, over the same states.
pub(super) struct Update {
    /// The program with all states: the whole step, or the update by gradients given to it.
    all: Program,
    /// What adds gradients, in steps of several batches.
    accumulation: Option<Accumulation>,
}

struct Accumulation {
    gradients: Program,
    /// The sums before the first batch.
    zeros: Array,
    /// Batches of a shard.
    batches: usize,
}

/// What batches contribute to a step.
pub(super) struct Sums {
    /// The loss of each batch.
    pub(super) losses: Vec<Array>,
    /// The sum of the gradients of each shard.
    pub(super) shards: Vec<Array>,
}

/// The results of a step.
pub(super) struct Outcome {
    /// The loss of each batch.
    pub(super) losses: Vec<Array>,
    /// The norm of the gradients.
    pub(super) norm: Array,
    /// The gradients, if no state has them.
    sums: Option<Array>,
}

impl Update {
    /// Prepares the programs for steps of `options` on the states.
    pub(super) fn new(
        engine: &Arc<Engine>,
        config: &TransformerConfig,
        options: &TrainOptions,
        states: &[&Array],
    ) -> Result<Self> {
        let model = Model::stored(config, options.dtype)?;
        let most = Counts::new(options.batch_size * config.max_seq_len, options.batch_size);
        if options.accumulate == 1 {
            return Ok(Update {
                all: Program::new(engine, model.training(options)?, most, states)?,
                accumulation: None,
            });
        }
        let size = model.arena().size;
        let all = Program::new(engine, application(size, options)?, Counts::default(), states)?;
        let zeros = filled(DType::F32.bytes(size), 0, "sums of gradients")?;
        let zeros = engine.upload(DType::F32, &[size], &zeros)?;
        let gradients = all.beside(model.accumulation(options)?, most)?;
        let batches = options.accumulate / options.shards;
        Ok(Update { all, accumulation: Some(Accumulation { gradients, zeros, batches }) })
    }

    /// The program with all states.
    pub(super) fn program(&self) -> &Program {
        &self.all
    }

    /// A step on the inputs of the model and the targets of each batch; `rest` are the inputs of the update.
    pub(super) fn run(&self, batches: &[Vec<Array>], share: &Array, rest: &[Array]) -> Result<Outcome> {
        if self.accumulation.is_none() {
            let inputs: Vec<&Array> = batches.iter().flatten().chain([share]).chain(rest).collect();
            let mut losses = self.all.run(&inputs)?;
            let norm = losses.remove(1);
            return Ok(Outcome { losses, norm, sums: None });
        }
        let Sums { losses, shards } = self.sums(batches, share)?;
        let mut total = None;
        for shard in shards {
            total = Some(self.added(total, shard)?);
        }
        let total = total.ok_or_else(|| Error::InvalidArgument("a step without batches".into()))?;
        self.apply(losses, total, rest)
    }

    /// The losses of batches, and the sums of the gradients of their shards, each from zero in the order of its batches.
    ///
    /// # Errors
    /// `InvalidArgument` where a step has one batch; else as [`Program::run`].
    pub(super) fn sums(&self, batches: &[Vec<Array>], share: &Array) -> Result<Sums> {
        let Some(Accumulation { gradients, zeros, batches: together }) = &self.accumulation else {
            return Err(Error::InvalidArgument("accumulate is 1: there are no sums of several batches".into()));
        };
        let (mut losses, mut shards) = (Vec::new(), Vec::new());
        for shard in batches.chunks(*together) {
            let mut sums = zeros.clone();
            for batch in shard {
                // Until the update nothing has changed.
                exit::check()?;
                let inputs: Vec<&Array> = batch.iter().chain([share, &sums]).collect();
                let mut outputs = gradients.run(&inputs)?;
                losses.push(outputs.remove(0));
                sums = outputs.remove(0);
            }
            shards.push(sums);
        }
        Ok(Sums { losses, shards })
    }

    /// The sum of the shards so far and the next.
    pub(super) fn added(&self, total: Option<Array>, shard: Array) -> Result<Array> {
        let add = Op::Binary(BinaryKind::Add.into());
        total.map_or(Ok(shard.clone()), |total| shard.engine().call(&add, &[&total, &shard]))
    }

    /// The update by the sum of all gradients.
    pub(super) fn apply(&self, losses: Vec<Array>, total: Array, rest: &[Array]) -> Result<Outcome> {
        let inputs: Vec<&Array> = [&total].into_iter().chain(rest).collect();
        let norm = self.all.run(&inputs)?.remove(0);
        Ok(Outcome { losses, norm, sums: Some(total) })
    }

    /// The gradients of the last step, in which each parameter has its place.
    pub(super) fn gradients(&self, outcome: &Outcome) -> Result<Array> {
        outcome.sums.clone().map_or_else(|| self.all.state(GRADIENTS), Ok)
    }
}

/// Last word of the counter from which dropout's seed is drawn; others are that of parameters, windows and tokens.
const DROPOUT: u32 = 4;

/// The words of seed and offset of batch `number`, counted from 0 over all steps: the seed is drawn from the run's, and the
/// counters of each batch are 2^32 after those of the one before.
pub(super) fn dropout_key(seed: u64, number: u64) -> [u32; 4] {
    let [low, high, ..] = philox([0, 0, 0, DROPOUT], [seed as u32, (seed >> 32) as u32]);
    [low, high, 0, number as u32]
}
