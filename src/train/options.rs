//! Settings of a training run.

use serde::{Deserialize, Serialize};

use super::{Optimizer, Schedule, TokenKind, need};
use crate::Result;
use crate::dtype::DType;

/// Settings of a run: its length, optimiser, batches, evaluation and checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainOptions {
    /// Windows computed at a time; default 32.
    pub batch_size: usize,
    /// Batches whose gradients are averaged in one step; default 1.
    pub accumulate: usize,
    /// Groups of the batches of a step, each of which is summed alone, and then the sums in order; divides `accumulate`;
    /// default 1. So many devices can share a step, or fewer that divide it, with the same bits.
    pub shards: usize,
    /// Times that the training part is read if `steps` is not set; default 1.
    pub epochs: u64,
    /// Steps in all.
    pub steps: Option<u64>,
    /// Learning rate, times the factor of the schedule; default 3e-4.
    pub learning_rate: f64,
    /// Rule of the update; default AdamW.
    pub optimizer: Optimizer,
    /// Adam's decays of the mean gradient and of the mean squared gradient; default 0.9 and 0.999.
    pub betas: [f64; 2],
    /// Added to the divisor of Adam; default 1e-8.
    pub eps: f64,
    /// Decay of the sum of the gradients in gradient descent; default 0.9.
    pub momentum: f64,
    /// Weight decay of all parameters, decoupled in AdamW; default 0.
    pub weight_decay: f64,
    /// How matrices, tables and computed values are stored in a step; default float32. Parameters, moments, gradients,
    /// norms, sums and the loss are float32, and so are evaluation and generation. In float16, whose numbers end at
    /// 65504, the loss is scaled so that small gradients are not zero.
    pub dtype: DType,
    /// Whether only the hidden states between layers are in memory until the gradients are computed, and all else is
    /// computed twice; default false. The numbers are the same in every bit.
    pub gradient_checkpointing: bool,
    /// Largest norm of all gradients together, to which larger ones are scaled; default none.
    pub max_norm: Option<f64>,
    /// Factor on the learning rate by step; default constant.
    pub schedule: Schedule,
    /// What the tokens of the text are; default its bytes.
    pub tokenizer: TokenKind,
    /// Seed of the initial parameters and of the order of the windows; default 0.
    pub seed: u64,
    /// Share of the text, at its end, on which nothing is trained; default 0.1.
    pub held_out: f64,
    /// Steps between two evaluations on the part held out; default once per epoch.
    pub evaluate_steps: Option<u64>,
    /// Epochs between two checkpoints; default 10. The last step has one always.
    pub checkpoint_epochs: u64,
    /// Steps between two checkpoints; default none.
    pub checkpoint_steps: Option<u64>,
    /// Newest checkpoints that stay; default 3.
    pub keep: usize,
}

impl Default for TrainOptions {
    fn default() -> Self {
        TrainOptions {
            batch_size: 32,
            accumulate: 1,
            shards: 1,
            epochs: 1,
            steps: None,
            learning_rate: 3e-4,
            optimizer: Optimizer::AdamW,
            betas: [0.9, 0.999],
            eps: 1e-8,
            momentum: 0.9,
            weight_decay: 0.0,
            dtype: DType::F32,
            gradient_checkpointing: false,
            max_norm: None,
            schedule: Schedule::Constant,
            tokenizer: TokenKind::Bytes,
            seed: 0,
            held_out: 0.1,
            evaluate_steps: None,
            checkpoint_epochs: 10,
            checkpoint_steps: None,
            keep: 3,
        }
    }
}

impl TrainOptions {
    /// Reads it from JSON.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown key, a missing one or a value of the wrong type.
    pub fn from_json(text: &str) -> Result<Self> {
        super::parsed("options", text)
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// `InvalidArgument` naming the first that is out of range, with its value and what is expected.
    ///
    /// ```
    /// use grilly::train::TrainOptions;
    /// let error = TrainOptions { batch_size: 0, ..TrainOptions::default() }.check().unwrap_err();
    /// assert_eq!(error.to_string(), "batch_size is 0, expected at least 1");
    /// ```
    pub fn check(&self) -> Result<()> {
        let counts = [
            ("batch_size", self.batch_size as u64),
            ("accumulate", self.accumulate as u64),
            ("shards", self.shards as u64),
            ("epochs", self.epochs),
            ("steps", self.steps.unwrap_or(1)),
            ("evaluate_steps", self.evaluate_steps.unwrap_or(1)),
            ("checkpoint_epochs", self.checkpoint_epochs),
            ("checkpoint_steps", self.checkpoint_steps.unwrap_or(1)),
            ("keep", self.keep as u64),
        ];
        for (name, count) in counts {
            need(name, &count, count > 0, "at least 1")?;
        }
        let divides = self.accumulate.is_multiple_of(self.shards);
        need("shards", &self.shards, divides, &format!("a divisor of accumulate, {}", self.accumulate))?;
        for (name, number) in
            [("learning_rate", self.learning_rate), ("eps", self.eps), ("weight_decay", self.weight_decay)]
        {
            need(name, &number, number >= 0.0 && number.is_finite(), "a finite number from 0")?;
        }
        let [beta1, beta2] = self.betas;
        for (name, decay) in [("one of betas", beta1), ("one of betas", beta2), ("momentum", self.momentum)] {
            need(name, &decay, (0.0..1.0).contains(&decay), "a number from 0 to below 1")?;
        }
        if let Some(norm) = self.max_norm {
            need("max_norm", &norm, norm > 0.0 && norm.is_finite(), "a positive number, or none")?;
        }
        need("held_out", &self.held_out, (0.0..1.0).contains(&self.held_out), "a share from 0 to below 1")?;
        self.schedule.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_numbers_are_named() {
        let default = TrainOptions::default;
        assert!(default().check().is_ok());
        for (options, expected) in [
            (TrainOptions { accumulate: 0, ..default() }, "accumulate is 0, expected at least 1"),
            (
                TrainOptions { accumulate: 4, shards: 3, ..default() },
                "shards is 3, expected a divisor of accumulate, 4",
            ),
            (TrainOptions { steps: Some(0), ..default() }, "steps is 0, expected at least 1"),
            (
                TrainOptions { learning_rate: f64::NAN, ..default() },
                "learning_rate is NaN, expected a finite number from 0",
            ),
            (TrainOptions { betas: [0.9, 1.0], ..default() }, "one of betas is 1, expected a number from 0 to below 1"),
            (TrainOptions { momentum: -0.1, ..default() }, "momentum is -0.1, expected a number from 0 to below 1"),
            (TrainOptions { max_norm: Some(0.0), ..default() }, "max_norm is 0, expected a positive number, or none"),
            (TrainOptions { held_out: -0.1, ..default() }, "held_out is -0.1, expected a share from 0 to below 1"),
        ] {
            assert_eq!(options.check().unwrap_err().to_string(), expected);
        }
        let read = r#"{"steps": 3, "schedule": {"kind": "constant"}, "optimizer": "sgd"}"#;
        let read: TrainOptions = serde_json::from_str(read).unwrap();
        assert_eq!(read, TrainOptions { steps: Some(3), optimizer: Optimizer::Sgd, ..default() });
        // As checkpoints are that were written before there was a choice.
        assert_eq!(serde_json::from_str::<TrainOptions>("{}").unwrap().optimizer, Optimizer::AdamW);
        assert!(serde_json::from_str::<TrainOptions>(r#"{"step": 3}"#).is_err());
    }
}
