//! The complete path from texts to embeddings.

mod decode;
mod described;
mod encode;
#[cfg(feature = "vulkan")]
mod export;
mod integers;
mod load;
mod options;
mod parts;
mod run;
mod stages;
mod tasks;
mod tokens;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, RwLock};

use ndarray::Array2;
use serde_json::{Map, Value, json};

use crate::backend::BackendKind;
use crate::dtype::DType;
use crate::model::class::Class;
use crate::model::config::SentenceConfig;
use crate::model::heads::Modules;
use crate::model::routes::{Listing, Row};
use crate::model::spec::EncoderSpec;
use crate::model::task_head::TaskHead;
use crate::text::chat::Chat;
use crate::text::tokenizer::Tokenizer;
use crate::{Error, Result};
#[cfg(feature = "vulkan")]
pub use export::ExportOptions;
pub use integers::IntegerProduct;
pub use options::{DecodeOptions, EncodeOptions, LoadOptions, read_options};
use stages::{Runner, Source};

/// The result of [`EmbeddingModel::encode`] and [`EmbeddingModel::encode_pairs`], in the order of the texts.
#[derive(Debug, Clone, Default)]
pub struct Encoded {
    /// One row per text or pair, as computed by the model's modules (normalised only if the model has such a module).
    pub texts: Array2<f32>,
    /// The token vectors of each text, `[tokens, columns]`; empty unless [`EncodeOptions::tokens`] is set.
    pub tokens: Vec<Array2<f32>>,
    /// Token ids of each text; empty unless [`EncodeOptions::tokens`] is set.
    pub ids: Vec<Vec<u32>>,
}

/// A model that computes embeddings, or scores of pairs, ready on a device.
///
/// Where a task chooses among modules, this is the model of one choice, and it holds those of the others. The weights of a
/// task take memory on the device when they are first used, those for texts without a task at loading.
///
/// ```no_run
/// use grilly::{EmbeddingModel, EncodeOptions};
/// let model = EmbeddingModel::load("all-MiniLM-L6-v2".as_ref(), &Default::default())?;
/// let encoded = model.encode(&["A text.".to_owned()], &EncodeOptions::default(), &mut |_| Ok(()))?;
/// assert_eq!(encoded.texts.dim(), (1, model.dimension()));
/// # Ok::<(), grilly::Error>(())
/// ```
pub struct EmbeddingModel {
    folder: PathBuf,
    class: &'static Class,
    config_json: String,
    model_type: String,
    sentence: SentenceConfig,
    modules: Modules,
    /// Those of `modules.json` that texts pass through; none without such a file.
    rows: Vec<Row>,
    spec: EncoderSpec,
    head: Option<TaskHead>,
    tokenizer: Tokenizer,
    /// The template of which texts become messages.
    chat: Option<Chat>,
    /// The tokenizer's own threads if their number was given; otherwise it uses the process' threads.
    tokenizer_threads: Option<Arc<rayon::ThreadPool>>,
    source: Source,
    /// Whether tokens and weights are multiplied as 8-bit integers.
    integers: bool,
    max_seq_length: AtomicUsize,
    include_prompt: AtomicBool,
    /// The task whose adapter encodes texts without a task.
    default_task: Option<String>,
    /// What tasks choose from.
    listing: Option<Listing>,
    /// The models of other choices.
    others: Vec<EmbeddingModel>,
    /// Of the models of all choices; `None` once closed.
    runner: Arc<RwLock<Option<Arc<Runner>>>>,
    /// The process that loaded the model: device and threads do not survive a fork.
    process: u32,
}

impl EmbeddingModel {
    fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        Err(Error::Unusable(
            "the model was loaded before a fork; load it in the child, or start processes with \"spawn\"".into(),
        ))
    }

    fn runner(&self) -> Result<Arc<Runner>> {
        self.check_process()?;
        let runner = self.runner.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        runner.clone().ok_or_else(|| Error::Unusable("the model is closed".into()))
    }

    /// The backend that runs batches now; it changes to the CPU after a device fault.
    pub fn backend(&self) -> BackendKind {
        self.runner().map_or(BackendKind::Cpu, |runner| runner.kind)
    }

    /// Name of that device, and the reason for its choice.
    pub fn device(&self) -> (String, String) {
        self.runner().map_or_else(
            |error| ("none".to_owned(), error.to_string()),
            |runner| (runner.device.clone(), runner.reason.clone()),
        )
    }

    /// The model's folder.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// Columns of an embedding, by the first of several routes, or scores of a pair.
    pub fn dimension(&self) -> usize {
        self.source.encoders[0].dimension()
    }

    /// The type to which the weights are rounded; int8 where those of products are, and the rest to a floating-point type.
    pub fn dtype(&self) -> DType {
        if self.integers { DType::I8 } else { self.source.weights.rounded }
    }

    /// `config.json` as text.
    pub fn config_json(&self) -> &str {
        &self.config_json
    }

    /// `model_type` of config.json.
    pub fn model_type(&self) -> &str {
        &self.model_type
    }

    /// What the folder configures: prompts as pairs of name and text, in its order, the name of the default one, the similarity,
    /// and each setting of the class; null for what it does not state.
    pub fn settings(&self) -> Map<String, Value> {
        let SentenceConfig { prompts, default_prompt_name, similarity_fn_name, settings, .. } = &self.sentence;
        let common = [
            ("prompts", json!(prompts)),
            ("default_prompt_name", json!(default_prompt_name)),
            ("similarity_fn_name", json!(similarity_fn_name)),
        ];
        let own = self.class.settings.iter().map(|(key, _)| (*key, json!(settings.get(*key))));
        common.into_iter().chain(own).map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// Checks that the model can be used.
    ///
    /// # Errors
    /// `Unusable` after `close` or a fork.
    pub fn require_open(&self) -> Result<()> {
        self.runner().map(drop)
    }

    /// Frees the device memory; later calls fail with `Unusable`.
    pub fn close(&self) {
        *self.runner.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }
}
