//! A run: steps over a text, evaluations, checkpoints and a file of metrics.

mod files;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::checkpoint::unfit_of;
use super::folder::{Folder, fault, steps};
use super::metrics::{Metrics, Record};
use super::trainer::check_memory;
use super::vocabulary::split;
use super::{
    Checkpoint, Dataset, Step, TokenKind, TrainOptions, Trainer, TransformerConfig, Vocabulary, Windows, sha256,
};
use crate::array::Engine;
use crate::{Error, Result};

/// What a run reads and where it writes.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    /// The text.
    pub text: &'a [u8],
    /// The folder of metrics and checkpoints.
    pub folder: &'a Path,
}

impl Files<'_> {
    fn fault(&self, problem: String) -> Error {
        fault(self.folder, problem)
    }

    /// The error of a new run in a folder that has checkpoints.
    fn check_new(&self) -> Result<()> {
        match steps(self.folder)?.pop() {
            None => Ok(()),
            Some(step) => {
                Err(self.fault(format!("has a checkpoint of step {step}; resume it, or name another folder")))
            }
        }
    }
}

/// Training on a text, with its files in a folder.
pub struct Run {
    trainer: Trainer,
    data: Dataset,
    /// SHA-256 of the text.
    text: String,
    folder: PathBuf,
    /// While the run writes to it.
    own: Option<Folder>,
    /// Once the run has begun.
    metrics: Option<Metrics>,
    steps: u64,
    per_epoch: u64,
    /// Step of the newest checkpoint.
    saved: Option<u64>,
    /// A step whose line is not in the metrics yet, and whether the part held out is evaluated after it.
    pending: Option<(Record, bool)>,
}

impl Run {
    /// A run with new parameters, in a folder without checkpoints, which is made if it is missing.
    ///
    /// # Errors
    /// `Checkpoint` for a folder that has one; `InvalidArgument` or `IndexOutOfRange` for sizes, settings or a text that
    /// do not fit; else as [`Trainer::new`].
    pub fn new(
        engine: &Arc<Engine>,
        files: Files<'_>,
        config: TransformerConfig,
        options: TrainOptions,
    ) -> Result<Self> {
        files.check_new()?;
        config.check()?;
        options.check()?;
        check_memory(&config, &options)?;
        let vocabulary = match options.tokenizer {
            TokenKind::Bytes => Vocabulary::default(),
            // Nothing of the part held out is known to it.
            TokenKind::Bpe => {
                let training = &files.text[..split(files.text, options.tokenizer, options.held_out)];
                Vocabulary::learned(training, config.vocab_size)?
            }
        };
        Run::of(files, sha256(files.text), (&config, &options, &vocabulary), |steps| {
            Trainer::of(engine, config.clone(), TrainOptions { steps: Some(steps), ..options.clone() }, &vocabulary)
        })
    }

    /// The run of a folder from its newest checkpoint, whose sizes and settings count, until so many `steps` are done
    /// in all, if another number is given.
    ///
    /// # Errors
    /// `Checkpoint` for a folder without one, whose newest is damaged or of another text, or that another run uses; else
    /// as [`Run::new`].
    pub fn resume(engine: &Arc<Engine>, files: Files<'_>, steps: Option<u64>) -> Result<Self> {
        let none = || files.fault("has no checkpoint to resume".into());
        if self::steps(files.folder)?.is_empty() {
            return Err(none());
        }
        let own = Folder::take(files.folder)?;
        let found = Checkpoint::newest(files.folder)?.ok_or_else(none)?;
        let text = sha256(files.text);
        if found.data.as_ref().is_some_and(|known| *known != text) {
            return Err(files.fault("holds a run on another text; name that text, or another folder".into()));
        }
        let (config, step) = (found.config.clone(), found.step);
        let unfit = unfit_of(files.folder, step);
        let metrics = Metrics::resumed(&own, &found)?;
        let vocabulary = found.tokenizer.clone().map_or_else(|| Ok(Vocabulary::default()), Vocabulary::read);
        let vocabulary = vocabulary.map_err(&unfit)?;
        let options = TrainOptions { steps: steps.or(found.options.steps), ..found.options.clone() };
        options.check()?;
        let mut run = Run::of(files, text, (&config, &options, &vocabulary), |steps| {
            let options = TrainOptions { steps: Some(steps), ..options.clone() };
            Trainer::resume(engine, Checkpoint { options, ..found }).map_err(unfit)
        })?;
        (run.metrics, run.saved) = (Some(metrics), Some(step));
        Ok(run)
    }

    /// A run of the trainer made for a number of steps, on a text with this SHA-256.
    fn of(
        files: Files<'_>,
        text: String,
        (config, options, vocabulary): (&TransformerConfig, &TrainOptions, &Vocabulary),
        trainer: impl FnOnce(u64) -> Result<Trainer>,
    ) -> Result<Self> {
        let (seed, held_out) = (options.seed, options.held_out);
        let windows = Windows { vocab_size: config.vocab_size, length: config.max_seq_len, held_out, seed };
        let data = Dataset::of_text(files.text, split(files.text, options.tokenizer, held_out), vocabulary, windows)?;
        let per_epoch = data.steps_per_epoch(options.batch_size.saturating_mul(options.accumulate))?;
        let steps = options.steps.unwrap_or(options.epochs.saturating_mul(per_epoch));
        let trainer = trainer(steps)?;
        fs::create_dir_all(files.folder).map_err(|cause| files.fault(format!("cannot be made: {cause}")))?;
        let folder = files.folder.to_owned();
        let (own, metrics, saved, pending) = (None, None, None, None);
        Ok(Run { trainer, data, text, folder, own, metrics, steps, per_epoch, saved, pending })
    }

    /// The next step, with the evaluation and the checkpoint that are due after it; `None` after the last. The folder is the
    /// run's own from the first of them until the last, an error or [`Run::release`]. After an error in the evaluation or in
    /// the metrics of a step the next call completes that step.
    ///
    /// # Errors
    /// As [`Trainer::step`] and [`Checkpoint::write`]; `Checkpoint` for a folder that another run uses, or has written to
    /// since this one did.
    pub fn advance(&mut self) -> Result<Option<Record>> {
        let found = self.advanced();
        if !matches!(found, Ok(Some(_))) {
            self.release();
        }
        found
    }

    fn advanced(&mut self) -> Result<Option<Record>> {
        if self.pending.is_none() {
            if self.trainer.steps_read() >= self.steps {
                return Ok(None);
            }
            self.take()?;
            self.pending = Some(self.step()?);
        }
        self.take()?;
        let record = self.complete()?;
        if record.as_ref().is_some_and(|record| record.checkpoint) {
            self.save()?;
        }
        Ok(record)
    }

    /// One step; its record without the evaluation, and whether that is due.
    fn step(&mut self) -> Result<(Record, bool)> {
        let (options, start) = (self.trainer.options().clone(), Instant::now());
        let batch =
            self.data.batch(self.trainer.steps_read(), options.batch_size.saturating_mul(options.accumulate))?;
        let Step { step, loss, norm, rate } = self.trainer.step(&batch)?;
        let seconds = start.elapsed().as_secs_f64();
        let due = |every: Option<u64>| every.is_some_and(|every| step.is_multiple_of(every)) || step == self.steps;
        let evaluated = due(Some(options.evaluate_steps.unwrap_or(self.per_epoch)));
        let by_epochs = Some(options.checkpoint_epochs.saturating_mul(self.per_epoch));
        let checkpoint = due(by_epochs) || due(options.checkpoint_steps);
        let (loss, norm) = (f64::from(loss), f64::from(norm));
        let loss_per_byte = self.per_byte(loss, &batch.targets);
        let (held_out_loss, held_out_loss_per_byte) = (None, None);
        let record = Record {
            step,
            loss,
            norm,
            rate,
            seconds,
            held_out_loss,
            loss_per_byte,
            held_out_loss_per_byte,
            checkpoint,
        };
        Ok((record, evaluated))
    }

    /// Evaluates after the last step if that is due, and writes its line, unless it is written. A checkpoint comes after,
    /// so that it has the metrics of all its steps.
    fn complete(&mut self) -> Result<Option<Record>> {
        let Some((mut record, evaluated)) = self.pending.clone() else { return Ok(None) };
        if evaluated {
            record.held_out_loss = self.evaluate()?;
            record.held_out_loss_per_byte = record.held_out_loss.and_then(|loss| self.held_out_per_byte(loss));
        }
        if let (Some(metrics), Some(own)) = (&mut self.metrics, &self.own) {
            metrics.append(own, &record)?;
        }
        self.pending = None;
        Ok(Some(record))
    }

    /// All remaining steps; `see` gets the record of each.
    ///
    /// # Errors
    /// As [`Run::advance`].
    pub fn finish(&mut self, mut see: impl FnMut(&Record)) -> Result<()> {
        while let Some(record) = self.advance()? {
            see(&record);
        }
        Ok(())
    }

    /// The mean cross entropy of the part held out in nats; `None` if there is none.
    ///
    /// # Errors
    /// As [`Trainer::evaluate`].
    pub fn evaluate(&mut self) -> Result<Option<f64>> {
        let held_out = self.data.held_out();
        (held_out.rows > 0).then(|| self.trainer.evaluate(&held_out)).transpose()
    }

    /// The mean cross entropy per byte of the part held out, given that per token; `None` where the tokens are bytes.
    pub fn held_out_per_byte(&self, loss: f64) -> Option<f64> {
        self.per_byte(loss, &self.data.held_out().targets)
    }

    /// The mean cross entropy per byte of tokens, given that per token.
    fn per_byte(&self, loss: f64, tokens: &[u32]) -> Option<f64> {
        let vocabulary = self.trainer.vocabulary();
        vocabulary.json().map(|_| loss * tokens.len() as f64 / vocabulary.bytes_of(tokens) as f64)
    }

    /// Steps in all.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The model.
    pub fn trainer(&mut self) -> &mut Trainer {
        &mut self.trainer
    }
}
