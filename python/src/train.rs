//! `grilly._core.Trainer`: training of transformers.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::array::Engine;
use crate::error::PyResult;
use crate::lock;
use crate::owned::Owned;
use crate::text::{Location, Name};
use grilly::train::{self, Batch, Files, Run, Sampling, TrainOptions, TransformerConfig};
use grilly::{Error, Result};

/// JSON of the configuration called `name`.
#[pyfunction]
pub(crate) fn transformer_config(name: Name) -> PyResult<String> {
    Ok(json!(TransformerConfig::named(&name.0)?).to_string())
}

/// The number of parameters of a configuration given as JSON.
#[pyfunction]
pub(crate) fn parameter_count(config: Name) -> PyResult<usize> {
    Ok(TransformerConfig::from_json(&config.0)?.parameter_count()?)
}

/// The metrics in a folder, a line of JSON for each step.
#[pyfunction]
pub(crate) fn metrics(folder: Location) -> PyResult<String> {
    Ok(train::read_metrics(&folder.0)?)
}

enum Held {
    Alone(Box<train::Trainer>),
    OnText(Box<Run>),
}

/// Name, shape and bytes of a tensor.
type Named<'py> = (String, Vec<usize>, Bound<'py, PyBytes>);

/// A model in training, alone or on a text.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct Trainer(Owned<Mutex<Held>>);

impl Trainer {
    /// Runs `work` on the trainer without the interpreter's lock.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut train::Trainer) -> Result<T> + Send) -> PyResult<T> {
        self.held(py, |held| match held {
            Held::Alone(trainer) => work(trainer),
            Held::OnText(run) => work(run.trainer()),
        })
    }

    fn start(py: Python<'_>, start: impl FnOnce() -> Result<Run> + Send) -> PyResult<Self> {
        let run = lock::without(py, start)?;
        Ok(Trainer(Mutex::new(Held::OnText(run.into())).into()))
    }

    fn run<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Run) -> Result<T> + Send) -> PyResult<T> {
        self.held(py, |held| match held {
            Held::Alone(_) => Err(Error::InvalidArgument("the trainer has no text; pass text and folder".into())),
            Held::OnText(run) => work(run),
        })
    }

    fn held<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Held) -> Result<T> + Send) -> PyResult<T> {
        let held = self.0.get("trainer")?;
        lock::without(py, || work(&mut held.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The windows of a two-dimensional array of tokens.
fn batch(tokens: Vec<Vec<u32>>) -> Result<Batch> {
    let length = tokens.first().map_or(0, Vec::len);
    if tokens.iter().any(|row| row.len() != length) {
        return Err(Error::InvalidArgument("tokens: the windows have different lengths".into()));
    }
    Batch::of(&tokens.concat(), length.saturating_sub(1))
}

#[pymethods]
impl Trainer {
    /// A model with initial parameters.
    #[staticmethod]
    fn alone(engine: &Bound<'_, Engine>, config: Name, options: Name) -> PyResult<Self> {
        let (config, options) = (TransformerConfig::from_json(&config.0)?, TrainOptions::from_json(&options.0)?);
        let own = &engine.get().0;
        let trainer = lock::without(engine.py(), || train::Trainer::new(own, config, options))?;
        Ok(Trainer(Mutex::new(Held::Alone(trainer.into())).into()))
    }

    /// A model with initial parameters that is trained on a text.
    #[staticmethod]
    fn on_text(
        engine: &Bound<'_, Engine>,
        text: &[u8],
        folder: Location,
        config: Name,
        options: Name,
    ) -> PyResult<Self> {
        let (config, options) = (TransformerConfig::from_json(&config.0)?, TrainOptions::from_json(&options.0)?);
        let (own, files) = (&engine.get().0, Files { text, folder: &folder.0 });
        Trainer::start(engine.py(), || Run::new(own, files, config, options))
    }

    /// The newest checkpoint of a folder, trained on until `steps` are done.
    #[staticmethod]
    fn resumed(engine: &Bound<'_, Engine>, text: &[u8], folder: Location, steps: Option<u64>) -> PyResult<Self> {
        let (own, files) = (&engine.get().0, Files { text, folder: &folder.0 });
        Trainer::start(engine.py(), || Run::resume(own, files, steps))
    }

    /// The model of the newest checkpoint in a folder, without a text.
    #[staticmethod]
    fn newest(engine: &Bound<'_, Engine>, folder: Location) -> PyResult<Self> {
        let own = &engine.get().0;
        let trainer = lock::without(engine.py(), || train::Trainer::newest(own, &folder.0))?;
        Ok(Trainer(Mutex::new(Held::Alone(trainer.into())).into()))
    }

    /// Lets further devices share each step.
    fn share(&self, py: Python<'_>, others: Vec<Bound<'_, Engine>>) -> PyResult<()> {
        let others: Vec<_> = others.iter().map(|engine| engine.get().0.clone()).collect();
        self.with(py, |trainer| trainer.share(&others))
    }

    /// JSON of the configuration and the settings.
    fn settings(&self, py: Python<'_>) -> PyResult<(String, String)> {
        self.with(py, |trainer| Ok((json!(trainer.config()).to_string(), json!(trainer.options()).to_string())))
    }

    /// Steps done.
    fn steps_done(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |trainer| Ok(trainer.steps_done()))
    }

    /// Number, loss, norm and rate of one step on windows of tokens.
    fn step(&self, py: Python<'_>, tokens: Vec<Vec<u32>>) -> PyResult<(u64, f32, f32, f64)> {
        let batch = batch(tokens)?;
        let step = self.with(py, |trainer| trainer.step(&batch))?;
        Ok((step.step, step.loss, step.norm, step.rate))
    }

    /// The mean loss of windows of tokens.
    fn evaluate(&self, py: Python<'_>, tokens: Vec<Vec<u32>>) -> PyResult<f64> {
        let batch = batch(tokens)?;
        self.with(py, |trainer| trainer.evaluate(&batch))
    }

    /// The next step on the text, as JSON of its record; None after the last.
    fn advance(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.run(py, |run| Ok(run.advance()?.map(|record| json!(record).to_string())))
    }

    /// Steps in all on the text.
    fn steps(&self, py: Python<'_>) -> PyResult<u64> {
        self.run(py, |run| Ok(run.steps()))
    }

    /// The mean loss of the part held out.
    fn held_out_loss(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        self.run(py, Run::evaluate)
    }

    /// Writes a checkpoint to the folder: that of the text by default.
    #[pyo3(signature = (folder=None))]
    fn save(&self, py: Python<'_>, folder: Option<Location>) -> PyResult<()> {
        match folder {
            None => self.run(py, Run::save),
            Some(folder) => self.held(py, |held| match held {
                Held::Alone(trainer) => trainer.checkpoint()?.write(&folder.0).map(drop),
                Held::OnText(run) => run.save_to(&folder.0),
            }),
        }
    }

    /// Lets other runs use the folder until the next step on the text.
    fn release(&self, py: Python<'_>) {
        // Not in a fork, which has no right to the folder, nor for another thread that is in the middle of a step.
        if let Ok(held) = self.0.get("trainer") {
            lock::briefly_without(py, || {
                if let Ok(mut held) = held.try_lock()
                    && let Held::OnText(run) = &mut *held
                {
                    run.release();
                }
            });
        }
    }

    /// The SHA-256 of every parameter and moment.
    fn hashes(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        self.with(py, |trainer| trainer.hashes())
    }

    /// Every parameter and moment.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Vec<Named<'py>>> {
        let tensors = self.with(py, |trainer| Ok(trainer.checkpoint()?.tensors))?;
        Ok(tensors.into_iter().map(|tensor| (tensor.name, tensor.shape, PyBytes::new(py, &tensor.bytes))).collect())
    }

    /// The mean loss of the part held out per byte, given that per token; None where tokens are bytes.
    fn held_out_per_byte(&self, py: Python<'_>, loss: f64) -> PyResult<Option<f64>> {
        self.run(py, |run| Ok(run.held_out_per_byte(loss)))
    }

    /// The tokens of a text.
    fn encode(&self, py: Python<'_>, text: &[u8]) -> PyResult<Vec<u32>> {
        self.with(py, |trainer| trainer.vocabulary().encode(text))
    }

    /// The bytes of tokens.
    fn decode<'py>(&self, py: Python<'py>, tokens: Vec<u32>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |trainer| trainer.vocabulary().decode(&tokens))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Tokens that continue others; `sampling` is JSON.
    fn generate(&self, py: Python<'_>, prompt: Vec<u32>, count: usize, sampling: Name) -> PyResult<Vec<u32>> {
        let sampling = Sampling::from_json(&sampling.0)?;
        self.with(py, |trainer| trainer.generate(&prompt, count, &sampling))
    }
}
