//! Runs batches through a program, several in flight at once, and continues on the CPU when a device fails.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ndarray::{ArrayView2, s};

use super::parts::{Parts, Patience};
use super::{EmbeddingModel, Encoded};
use crate::array::ByLength;
use crate::backend::choose::{self, DeviceRequest};
use crate::backend::{Backend, BackendKind, Feed, Pending, Program, ProgramOptions, cpu};
use crate::graph::Plan;
use crate::model::encoder::{Input, outputs};
use crate::model::weights::Weights;
use crate::ops::Counts;
use crate::settings::Settings;
use crate::stats::COUNTERS;
use crate::text::packing::{self, Batch};
use crate::text::tokenizer::Tokens;
use crate::{Error, Result};

/// A program and its device.
pub(super) struct Runner {
    pub kind: BackendKind,
    pub device: String,
    pub reason: String,
    program: Arc<dyn Program>,
}

/// What a runner is made of.
pub(super) struct Source {
    pub plan: Arc<Plan>,
    pub weights: Arc<Weights>,
    pub options: ProgramOptions,
    pub settings: Settings,
}

impl Source {
    /// Chooses the device and uploads the weights; if the device cannot run the plan, the CPU does.
    pub fn open(&self, device: &str) -> Result<Runner> {
        let choice = choose::open(device.parse::<DeviceRequest>()?, &self.settings)?;
        match self.runner(&*choice.backend, choice.reason) {
            Err(error) if choice.backend.kind() == BackendKind::Vulkan && may_move(&error) => self.take_over(&error),
            opened => opened,
        }
    }

    /// Replaces a device that failed with `error` by the CPU.
    fn take_over(&self, error: &Error) -> Result<Runner> {
        let reason = format!("the CPU took over: {error}");
        if self.settings.strict {
            return Err(Error::DeviceUnavailable(format!("{error} (GRILLY_STRICT forbids the CPU instead)")));
        }
        log::warn!(target: "grilly", "{reason}");
        COUNTERS.fallbacks.fetch_add(1, Relaxed);
        self.runner(&*cpu::backend(), reason)
    }

    /// The plan as a program of the backend, or on arrays where all texts of a batch must have one length.
    fn runner(&self, backend: &dyn Backend, reason: String) -> Result<Runner> {
        let program = match self.plan.graph.needs_one_length() {
            true => ByLength::prepare(backend, &self.plan, &*self.weights, self.options)?,
            false => backend.prepare(self.plan.clone(), self.weights.clone(), self.options)?,
        };
        Ok(Runner { kind: backend.kind(), device: backend.device_name().to_owned(), reason, program })
    }
}

/// Whether the CPU may run the work after this error of the device.
fn may_move(error: &Error) -> bool {
    error.is_device_fault() || matches!(error, Error::Unsupported { .. } | Error::PipelineCreationFailed { .. })
}

/// The possible outputs of a batch, token vectors last.
const OUTPUTS: [usize; 2] = [outputs::SENTENCES, outputs::TOKENS];

/// The state of one call of `encode`.
pub(super) struct Work<'a> {
    /// Inputs of the program.
    pub inputs: &'a [Input],
    /// Columns of a token vector.
    pub hidden: usize,
    /// Tokens of the texts tokenized so far.
    pub tokens: Vec<Tokens>,
    /// Number of leading tokens of every text that pooling leaves out.
    pub first: usize,
    pub with_tokens: bool,
    /// Maximum texts per batch.
    pub most_texts: usize,
    /// The results so far.
    pub encoded: Encoded,
    /// Batches not yet started.
    pub waiting: VecDeque<Batch>,
    /// Batches that were started, the oldest first.
    pub under_way: VecDeque<(Batch, Box<dyn Pending>)>,
}

impl Work<'_> {
    /// Splits texts into batches; all but the last are full.
    fn pack(&self, texts: &[usize], most_tokens: usize) -> VecDeque<Batch> {
        let lengths: Vec<usize> = texts.iter().map(|&text| self.tokens[text].ids.len()).collect();
        let mut batches = packing::pack(&lengths, most_tokens, self.most_texts);
        for text in batches.iter_mut().flat_map(|batch| &mut batch.texts) {
            *text = texts[*text];
        }
        batches.into()
    }

    /// The contents of an input for a batch.
    fn fill(&self, input: Input, batch: &Batch) -> Vec<u32> {
        let texts = || batch.texts.iter().map(|&text| &self.tokens[text]);
        match input {
            Input::Words => texts().flat_map(|text| &text.ids).copied().collect(),
            Input::Positions(rows) => texts().flat_map(|text| rows.of(&text.ids)).collect(),
            Input::Offsets => packing::offsets(texts().map(|text| text.ids.len())),
            // A prompt that fills a truncated text leaves no tokens to pool.
            Input::FirstPooled => texts().map(|text| self.first.min(text.ids.len()) as u32).collect(),
            Input::Segments => texts().flat_map(|text| &text.type_ids).copied().collect(),
        }
    }

    /// Submits a batch.
    fn start(&self, program: &dyn Program, batch: &Batch) -> Result<Box<dyn Pending>> {
        let inputs: Vec<Vec<u32>> = self.inputs.iter().map(|input| self.fill(*input, batch)).collect();
        let feed = Feed {
            counts: Counts::new(batch.tokens, batch.texts.len()),
            inputs: inputs.iter().map(|input| bytemuck::cast_slice(input)).collect(),
            outputs: OUTPUTS[..if self.with_tokens { 2 } else { 1 }].to_vec(),
        };
        program.submit(&feed)
    }

    /// Copies the rows of a finished batch's output, one of [`OUTPUTS`], to the positions of their texts.
    fn place(&mut self, batch: &Batch, place: usize, rows: &[f32]) -> Result<()> {
        if OUTPUTS[place] == outputs::TOKENS {
            let hidden = matrix(rows, batch.tokens, self.hidden)?;
            let offsets = packing::offsets(batch.texts.iter().map(|&text| self.tokens[text].ids.len()));
            for (i, &text) in batch.texts.iter().enumerate() {
                self.encoded.tokens[text] = hidden.slice(s![packing::rows(&offsets, i), ..]).to_owned();
            }
            return Ok(());
        }
        let sentences = matrix(rows, batch.texts.len(), self.encoded.sentences.ncols())?;
        for (row, &text) in sentences.rows().into_iter().zip(&batch.texts) {
            if !row.iter().all(|value| value.is_finite()) {
                return Err(Error::NotFinite(format!(
                    "the embedding of text {text} is not finite; the weights or the device are faulty"
                )));
            }
            self.encoded.sentences.row_mut(text).assign(&row);
        }
        Ok(())
    }

    /// Starts batches up to the program's limit in flight, then finishes the oldest; returns the number of texts
    /// finished.
    fn step(&mut self, program: &dyn Program) -> Result<usize> {
        while self.under_way.len() < program.limits().in_flight
            && let Some(batch) = self.waiting.front()
        {
            let pending = self.start(program, batch)?;
            self.under_way.extend(self.waiting.pop_front().map(|batch| (batch, pending)));
        }
        let Some((batch, pending)) = self.under_way.pop_front() else { return Ok(0) };
        match pending.read(&mut |place, rows| self.place(&batch, place, rows)) {
            Ok(()) => Ok(batch.texts.len()),
            Err(error) => {
                self.waiting.push_front(batch);
                Err(error)
            }
        }
    }
}

fn matrix(values: &[f32], rows: usize, columns: usize) -> Result<ArrayView2<'_, f32>> {
    // A device may return rows up to its capacity; the batch's come first.
    ArrayView2::from_shape((rows, columns), values.get(..rows * columns).unwrap_or(&[])).map_err(|_| Error::Device {
        device: "result".into(),
        call: "read back".into(),
        cause: format!("{} values, expected {rows} x {columns}", values.len()),
    })
}

impl EmbeddingModel {
    /// Runs all texts in batches, each started as soon as it is full; after a device fault the unfinished batches run
    /// on the CPU.
    pub(super) fn run(
        &self,
        mut runner: Arc<Runner>,
        work: &mut Work<'_>,
        parts: &mut Parts<'_>,
        progress: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        // Texts that do not yet fill a batch.
        let mut loose = Vec::new();
        let mut done = 0;
        while !(parts.left() == 0 && work.waiting.is_empty() && work.under_way.is_empty()) {
            let patience = if work.under_way.is_empty() { Patience::Wait } else { Patience::Look };
            if work.waiting.is_empty()
                && let Some(part) = parts.take(patience)
            {
                let first = work.tokens.len();
                work.tokens.extend(part?);
                loose.extend(first..work.tokens.len());
                work.waiting = work.pack(&loose, runner.program.limits().tokens);
                let unfilled = if parts.left() > 0 { work.waiting.pop_back() } else { None };
                loose = unfilled.map_or_else(Vec::new, |batch| batch.texts);
                progress(done)?;
            }
            match work.step(&*runner.program) {
                Ok(texts) => {
                    done += texts;
                    progress(done)?;
                }
                Err(error) if runner.kind == BackendKind::Vulkan && error.is_device_fault() => {
                    // No results of these batches were stored, so they can be rerun from the start.
                    for (batch, pending) in work.under_way.drain(..).rev() {
                        drop(pending);
                        work.waiting.push_front(batch);
                    }
                    runner = self.replace(&runner, &error)?;
                }
                Err(error) => return Err(error),
            }
            if crate::exit::begun() {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// Replaces `failed` by the CPU, unless another thread has already done so.
    fn replace(&self, failed: &Arc<Runner>, error: &Error) -> Result<Arc<Runner>> {
        let mut current = self.runner.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        match current.as_ref() {
            None => return Err(Error::Unusable("the model is closed".into())),
            Some(runner) if !Arc::ptr_eq(runner, failed) => return Ok(runner.clone()),
            Some(_) => {}
        }
        let runner = Arc::new(self.source.take_over(error)?);
        *current = Some(runner.clone());
        Ok(runner)
    }
}
