//! How gradients reach the parameters: within one program, or as sums over several batches.

use std::sync::Arc;

use super::graph::Model;
use super::{TrainOptions, TransformerConfig};
use crate::Result;
use crate::array::{Array, Engine, Program};
use crate::dtype::DType;
use crate::ops::Counts;
use crate::ops::rng::philox;

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
    zeros: Vec<Array>,
}

impl Update {
    /// Prepares the programs for steps of `options` on parameters and moments, the states.
    pub(super) fn new(
        engine: &Arc<Engine>,
        config: &TransformerConfig,
        options: &TrainOptions,
        states: &[&Array],
    ) -> Result<Self> {
        let model = Model::new(config)?;
        let most = Counts::new(options.batch_size * config.max_seq_len, options.batch_size);
        if options.accumulate == 1 {
            return Ok(Update {
                all: Program::new(engine, model.training(options)?, most, states)?,
                accumulation: None,
            });
        }
        let all = Program::new(engine, Model::application(config, options)?, Counts::default(), states)?;
        let zeros = model.parameters().into_iter().map(|of| {
            let bytes = vec![0; 4 * of.shape.iter().product::<usize>()];
            engine.upload(DType::F32, &of.shape, &bytes)
        });
        let zeros = zeros.collect::<Result<_>>()?;
        let gradients = all.beside(model.accumulation()?, most)?;
        Ok(Update { all, accumulation: Some(Accumulation { gradients, zeros }) })
    }

    /// The program with all states.
    pub(super) fn program(&self) -> &Program {
        &self.all
    }

    /// A step on the inputs of the model and the targets of each batch; returns their losses and the gradients' norm.
    pub(super) fn run(
        &self,
        batches: &[Vec<Array>],
        [share, rates, max_norm]: [&Array; 3],
    ) -> Result<(Vec<Array>, Array)> {
        let Some(Accumulation { gradients, zeros }) = &self.accumulation else {
            let inputs: Vec<&Array> = batches.iter().flatten().chain([share, rates, max_norm]).collect();
            let mut losses = self.all.run(&inputs)?;
            let norm = losses.remove(1);
            return Ok((losses, norm));
        };
        let (mut sums, mut losses) = (zeros.clone(), Vec::new());
        for batch in batches {
            let inputs: Vec<&Array> = batch.iter().chain([share]).chain(&sums).collect();
            let mut outputs = gradients.run(&inputs)?;
            losses.push(outputs.remove(0));
            sums = outputs;
        }
        let inputs: Vec<&Array> = sums.iter().chain([rates, max_norm]).collect();
        Ok((losses, self.all.run(&inputs)?.remove(0)))
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
