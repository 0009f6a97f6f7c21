//! Runs batches through a program, several in flight at once, and continues on the CPU when a device fails.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use ndarray::{Array2, ArrayView2, s};

use super::parts::{Parts, Patience};
use super::stages::{Runner, Stage};
use super::{Encoded, Model, Route};
use crate::backend::{BackendKind, Executable, Feed, Pending};
use crate::model::encoder::outputs;
use crate::text::packing::{self, Batch};
use crate::text::tokenizer::Tokens;
use crate::{Error, Result};

/// The state of one run of a stage.
pub(super) struct Work<'a> {
    pub stage: &'a Stage,
    /// What a decoder's texts attend to, by text; none for an encoder.
    pub states: &'a [Array2<f32>],
    /// Tokens of the texts tokenized so far.
    pub tokens: Vec<Tokens>,
    /// Number of leading tokens of every text that pooling leaves out.
    pub first: usize,
    /// The outputs to read, in this order.
    pub wanted: Vec<usize>,
    /// Whether the tokens that all texts of a batch begin with are computed once: not those whose vectors are read.
    pub shares: bool,
    /// Maximum texts per batch.
    pub most_texts: usize,
    /// The results so far.
    pub encoded: Encoded,
    /// Batches not yet started.
    pub waiting: VecDeque<Batch>,
    /// Batches that were started, the oldest first.
    pub under_way: VecDeque<(Batch, Pending)>,
}

impl<'a> Work<'a> {
    /// Work without texts yet, whose results are token vectors.
    pub fn new(stage: &'a Stage, most_texts: usize, encoded: Encoded) -> Self {
        Work {
            stage,
            states: &[],
            tokens: Vec::with_capacity(encoded.tokens.len()),
            first: 0,
            wanted: vec![outputs::TOKENS],
            shares: false,
            most_texts,
            encoded,
            waiting: VecDeque::new(),
            under_way: VecDeque::new(),
        }
    }

    /// Splits texts into batches; all but the last are full.
    fn pack(&self, texts: &[usize], most_tokens: usize) -> VecDeque<Batch> {
        // Either sequence of a batch keeps within the limit.
        let length = |text: usize| self.length(text).max(self.states_of(text));
        let lengths: Vec<usize> = texts.iter().map(|&text| length(text)).collect();
        let mut batches = packing::pack(&lengths, most_tokens, self.most_texts);
        for batch in &mut batches {
            batch.texts.iter_mut().for_each(|text| *text = texts[*text]);
            if self.shares {
                batch.shared = self.common(&batch.texts);
            }
        }
        batches.into()
    }

    /// Tokens of a text.
    pub(super) fn length(&self, text: usize) -> usize {
        self.tokens[text].ids.len()
    }

    /// States that a decoder's text attends to.
    pub(super) fn states_of(&self, text: usize) -> usize {
        self.states.get(text).map_or(0, Array2::nrows)
    }

    /// Submits a batch.
    pub(super) fn start(&self, program: &dyn Executable, batch: &Batch) -> Result<Pending> {
        let inputs: Vec<Vec<u32>> = self.stage.inputs.iter().map(|input| self.fill(*input, batch)).collect();
        let feed = Feed {
            counts: self.counts(batch),
            inputs: inputs.iter().map(|input| bytemuck::cast_slice(input)).collect(),
            outputs: self.wanted.clone(),
        };
        program.submit(&feed)
    }

    /// Copies the rows of a finished batch's output, one of the wanted, to the positions of their texts.
    fn place(&mut self, batch: &Batch, place: usize, rows: &[f32]) -> Result<()> {
        let output = self.wanted[place];
        let columns = self.stage.slice(output);
        if output == outputs::TOKENS {
            let tokens = matrix(rows, self.counts(batch).tokens, columns.len())?;
            let offsets = packing::offsets(batch.texts.iter().map(|&text| self.length(text)));
            for (i, &text) in batch.texts.iter().enumerate() {
                self.encoded.tokens[text] = tokens.slice(s![packing::rows(&offsets, i), ..]).to_owned();
            }
            return Ok(());
        }
        let texts = matrix(rows, batch.texts.len(), columns.len())?;
        for (row, &text) in texts.rows().into_iter().zip(&batch.texts) {
            if !row.iter().all(|value| value.is_finite()) {
                return Err(Error::NotFinite(format!(
                    "the result of text {text} is not finite; the weights or the device are faulty"
                )));
            }
            self.encoded.texts.slice_mut(s![text, columns.clone()]).assign(&row);
        }
        Ok(())
    }

    /// Starts batches up to the program's limit in flight, then finishes the oldest; returns the number of texts
    /// finished.
    fn step(&mut self, program: &dyn Executable) -> Result<usize> {
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

pub(super) fn matrix(values: &[f32], rows: usize, columns: usize) -> Result<ArrayView2<'_, f32>> {
    // A device may return rows up to its capacity; the batch's come first.
    ArrayView2::from_shape((rows, columns), values.get(..rows * columns).unwrap_or(&[])).map_err(|_| Error::Device {
        device: "result".into(),
        call: "read back".into(),
        cause: format!("{} values, expected {rows} x {columns}", values.len()),
    })
}

/// A run of texts through a route, on the device that the model has now.
pub(super) struct Session<'a> {
    model: &'a Model,
    pub route: &'a Route,
    runner: Arc<Runner>,
}

impl<'a> Session<'a> {
    /// A run on an open model.
    ///
    /// # Errors
    /// `Unusable` after `close` or a fork.
    pub fn new(model: &'a Model, route: &'a Route) -> Result<Self> {
        Ok(Session { model, route, runner: model.runner()? })
    }

    /// Whether a device other than the CPU computes, so that the CPU has time to tokenize ahead.
    pub fn is_elsewhere(&self) -> bool {
        self.runner.kind == BackendKind::Vulkan
    }

    /// Runs all texts in batches, each started as soon as it is full; after a device fault the unfinished batches run
    /// on the devices that are left, or on the CPU.
    pub fn run(
        &mut self,
        work: &mut Work<'_>,
        parts: &mut Parts<'_>,
        progress: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let mut program = self.program(work.stage)?;
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
                work.waiting = work.pack(&loose, program.limits().tokens);
                let unfilled = if parts.left() > 0 { work.waiting.pop_back() } else { None };
                loose = unfilled.map_or_else(Vec::new, |batch| batch.texts);
                progress(done)?;
            }
            match work.step(&*program) {
                Ok(texts) => {
                    done += texts;
                    progress(done)?;
                }
                Err(error) if self.is_elsewhere() && error.is_device_fault() => {
                    // No results of these batches were stored, so they can be rerun from the start.
                    for (batch, pending) in work.under_way.drain(..).rev() {
                        drop(pending);
                        work.waiting.push_front(batch);
                    }
                    if !program.goes_on() {
                        self.replace(&error)?;
                        program = self.program(work.stage)?;
                    }
                }
                Err(error) => return Err(error),
            }
            if crate::exit::begun() {
                return Err(Error::Interrupted);
            }
        }
        Ok(())
    }

    /// A program of a stage that is not among the route's.
    pub fn prepare(&self, stage: &Stage) -> Result<Arc<dyn Executable>> {
        self.runner.prepare(&self.route.source, stage)
    }

    /// The program of a stage; if the device cannot run it, the CPU replaces the runner.
    fn program(&mut self, stage: &Stage) -> Result<Arc<dyn Executable>> {
        loop {
            match self.runner.program(&self.route.source, stage) {
                Err(error) if self.runner.may_move(&error) => self.replace(&error)?,
                prepared => return prepared,
            }
        }
    }

    /// Replaces the device that failed by the CPU, unless another thread has already done so.
    fn replace(&mut self, error: &Error) -> Result<()> {
        let mut current = self.model.runner.write().unwrap_or_else(PoisonError::into_inner);
        match current.as_ref() {
            None => return Err(Error::Unusable("the model is closed".into())),
            Some(runner) if !Arc::ptr_eq(runner, &self.runner) => self.runner = runner.clone(),
            Some(_) => {
                self.runner = Arc::new(self.route.source.take_over(self.runner.places(), error)?);
                *current = Some(self.runner.clone());
            }
        }
        Ok(())
    }
}
