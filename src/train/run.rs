//! A run: steps over a text, evaluations, checkpoints and a file of metrics.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;

use super::checkpoint::replace;
use super::vocabulary::split;
use super::{
    Checkpoint, Dataset, Step, TokenKind, TrainOptions, Trainer, TransformerConfig, Vocabulary, Windows, keep_newest,
    sha256,
};
use crate::array::Engine;
use crate::{Error, Result};

/// Name of the file of metrics, one JSON object per line.
const METRICS: &str = "metrics.jsonl";

/// One line of the metrics.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// Number of the step, counted from 1.
    pub step: u64,
    /// Mean cross entropy of the step's tokens in nats, before the update.
    pub loss: f64,
    /// Norm of all gradients together.
    pub norm: f64,
    /// Learning rate.
    pub rate: f64,
    /// Seconds of the step, without evaluation and checkpoint.
    pub seconds: f64,
    /// Mean cross entropy of the part held out in nats, after the update, where it was evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out_loss: Option<f64>,
    /// The two per byte of the text, where a token has several: what models with other tokens compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_per_byte: Option<f64>,
    /// As `loss_per_byte`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_out_loss_per_byte: Option<f64>,
    /// Whether a checkpoint was written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub checkpoint: bool,
}

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
        Error::Checkpoint { path: self.folder.to_owned(), problem }
    }
}

/// Training on a text, with its files in a folder.
pub struct Run {
    trainer: Trainer,
    data: Dataset,
    /// SHA-256 of the text.
    text: String,
    folder: PathBuf,
    steps: u64,
    per_epoch: u64,
    /// Step of the newest checkpoint.
    saved: Option<u64>,
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
        if let Some(Checkpoint { step, .. }) = Checkpoint::newest(files.folder)? {
            let problem = format!("has a checkpoint of step {step}; resume it, or name another folder");
            return Err(files.fault(problem));
        }
        config.check()?;
        options.check()?;
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
    /// `Checkpoint` for a folder without one, or whose newest is damaged or of another text; else as [`Run::new`].
    pub fn resume(engine: &Arc<Engine>, files: Files<'_>, steps: Option<u64>) -> Result<Self> {
        let none = || files.fault("has no checkpoint to resume".into());
        let found = Checkpoint::newest(files.folder)?.ok_or_else(none)?;
        let text = sha256(files.text);
        if found.data.as_ref().is_some_and(|known| *known != text) {
            return Err(files.fault("holds a run on another text; name that text, or another folder".into()));
        }
        let (config, step) = (found.config.clone(), found.step);
        let vocabulary = found.tokenizer.clone().map_or_else(|| Ok(Vocabulary::default()), Vocabulary::read)?;
        let options = TrainOptions { steps: steps.or(found.options.steps), ..found.options.clone() };
        options.check()?;
        let mut run = Run::of(files, text, (&config, &options, &vocabulary), |steps| {
            Trainer::resume(
                engine,
                Checkpoint { options: TrainOptions { steps: Some(steps), ..options.clone() }, ..found },
            )
        })?;
        cut_metrics(&files.folder.join(METRICS), step)?;
        run.saved = Some(step);
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
        Ok(Run { trainer, data, text, folder, steps, per_epoch, saved: None })
    }

    /// The next step, with the evaluation and the checkpoint that are due after it; `None` after the last.
    ///
    /// # Errors
    /// As [`Trainer::step`] and [`Checkpoint::write`].
    pub fn advance(&mut self) -> Result<Option<Record>> {
        let done = self.trainer.steps_done();
        if done >= self.steps {
            return Ok(None);
        }
        let (options, start) = (self.trainer.options().clone(), Instant::now());
        let batch = self.data.batch(done, options.batch_size * options.accumulate)?;
        let Step { step, loss, norm, rate } = self.trainer.step(&batch)?;
        let seconds = start.elapsed().as_secs_f64();
        let due = |every: Option<u64>| every.is_some_and(|every| step.is_multiple_of(every)) || step == self.steps;
        let evaluated = due(Some(options.evaluate_steps.unwrap_or(self.per_epoch)));
        let by_epochs = Some(options.checkpoint_epochs.saturating_mul(self.per_epoch));
        let checkpoint = due(by_epochs) || due(options.checkpoint_steps);
        let held_out_loss = if evaluated { self.evaluate()? } else { None };
        let (loss, norm) = (f64::from(loss), f64::from(norm));
        let loss_per_byte = self.per_byte(loss, &batch.targets);
        let held_out_loss_per_byte = held_out_loss.and_then(|loss| self.held_out_per_byte(loss));
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
        // In this order, so that a checkpoint has the metrics of all its steps.
        self.log(&record)?;
        if checkpoint {
            self.save()?;
        }
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

    /// Writes a checkpoint of the steps so far, unless the newest one has as many, and removes the oldest.
    ///
    /// # Errors
    /// As [`Checkpoint::write`], and `NotFinite` after a step that failed with it.
    pub fn save(&mut self) -> Result<()> {
        let step = self.trainer.steps_done();
        if self.saved != Some(step) {
            let data = Some(self.text.clone());
            Checkpoint { data, ..self.trainer.checkpoint()? }.write(&self.folder)?;
            self.saved = Some(step);
            keep_newest(&self.folder, self.trainer.options().keep)?;
        }
        Ok(())
    }

    /// Steps in all.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The model.
    pub fn trainer(&mut self) -> &mut Trainer {
        &mut self.trainer
    }

    fn log(&self, record: &Record) -> Result<()> {
        let path = self.folder.join(METRICS);
        let fault = |problem: String| Error::Checkpoint { path: path.clone(), problem };
        let line = serde_json::to_string(record).map_err(|cause| fault(cause.to_string()))?;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| writeln!(file, "{line}"));
        written.map_err(|cause| fault(format!("cannot be written: {cause}")))
    }
}

/// Drops the lines of steps after `step`, which are done again.
fn cut_metrics(path: &Path, step: u64) -> Result<()> {
    let fault = |cause| Error::Checkpoint { path: path.to_owned(), problem: format!("cannot be read: {cause}") };
    let text = match fs::read_to_string(path) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        text => text.map_err(fault)?,
    };
    let kept = text.lines().filter(|line| {
        let line: Option<serde_json::Value> = serde_json::from_str(line).ok();
        line.and_then(|line| line["step"].as_u64()).is_some_and(|found| found <= step)
    });
    let kept: String = kept.flat_map(|line| [line, "\n"]).collect();
    replace(path, kept.as_bytes())
}
