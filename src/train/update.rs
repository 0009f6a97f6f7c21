//! How gradients reach the parameters: within one program, or as sums over several batches.

use std::sync::Arc;

use super::graph::{GRADIENTS, Model};
use super::optimizer::application;
use super::{TrainOptions, TransformerConfig};
use crate::array::{Array, Engine, Program};
use crate::dtype::DType;
use crate::ops::Counts;
use crate::ops::rng::philox;
use crate::process::memory::filled;
use crate::{Result, exit};

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
        Ok(Update { all, accumulation: Some(Accumulation { gradients, zeros }) })
    }

    /// The program with all states.
    pub(super) fn program(&self) -> &Program {
        &self.all
    }

    /// A step on the inputs of the model and the targets of each batch; `rest` are the inputs of the update.
    pub(super) fn run(&self, batches: &[Vec<Array>], share: &Array, rest: &[&Array]) -> Result<Outcome> {
        let rest = rest.iter().copied();
        let Some(Accumulation { gradients, zeros }) = &self.accumulation else {
            let inputs: Vec<&Array> = batches.iter().flatten().chain([share]).chain(rest).collect();
            let mut losses = self.all.run(&inputs)?;
            let norm = losses.remove(1);
            return Ok(Outcome { losses, norm, sums: None });
        };
        let (mut sums, mut losses) = (zeros.clone(), Vec::new());
        for batch in batches {
            // Until the update nothing has changed.
            exit::check()?;
            let inputs: Vec<&Array> = batch.iter().chain([share, &sums]).collect();
            let mut outputs = gradients.run(&inputs)?;
            losses.push(outputs.remove(0));
            sums = outputs.remove(0);
        }
        let inputs: Vec<&Array> = [&sums].into_iter().chain(rest).collect();
        let norm = self.all.run(&inputs)?.remove(0);
        Ok(Outcome { losses, norm, sums: Some(sums) })
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
