//! The complete path from texts to embeddings.

mod decode;
mod described;
mod encode;
#[cfg(feature = "vulkan")]
mod export;
mod integers;
mod load;
mod parts;
mod run;
mod stages;
mod tasks;
mod tokens;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, RwLock};

use ndarray::Array2;

use crate::backend::BackendKind;
use crate::dtype::DType;
use crate::graph::shaders::Float32Products;
use crate::model::arguments::Arguments;
use crate::model::config::SentenceConfig;
use crate::model::dtype::DTypeChoice;
use crate::model::heads::{Class, Modules};
use crate::model::routes::{Listing, Row};
use crate::model::spec::EncoderSpec;
use crate::model::task_head::TaskHead;
use crate::ops::{Levels, PoolMode};
use crate::text::chat::Chat;
use crate::text::tokenizer::Tokenizer;
use crate::{Error, Result};
pub use decode::DecodeOptions;
#[cfg(feature = "vulkan")]
pub use export::ExportOptions;
pub use integers::IntegerProduct;
use stages::{Runner, Source};

/// Options of loading a model.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// `"vulkan"`, `"vulkan:N"` or `"cpu"`.
    pub device: String,
    /// The type to which weights are rounded, and in which a device stores the encoder's numbers; the CPU stores
    /// float32 in place of floating-point types.
    pub dtype: DTypeChoice,
    /// Maximum tokens of a text; `None` for the model's own limit. A value above the limit of the position table is
    /// reduced to that limit with a warning.
    pub max_seq_length: Option<usize>,
    /// CPU threads; `None` for all that the process may use.
    pub num_threads: Option<usize>,
    /// Maximum bytes of device memory, for the weights of one task.
    pub memory_limit: Option<u64>,
    /// The task whose adapter encodes texts without a task; `None` for the model's own.
    pub default_task: Option<String>,
    /// What is computed.
    pub class: Class,
    /// How float32 products run on a GPU with matrix cores; `None` for the process' choice.
    pub float32_products: Option<Float32Products>,
    /// Keyword arguments for the readers of the model's files.
    pub arguments: Arguments,
    /// Integers to which the matrices of the layers' products are rounded, where the model does not say so itself.
    pub rounded_products: Option<Levels>,
    /// What Pooling modules compute in place of their own modes; not empty.
    pub pooling: Option<Vec<PoolMode>>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            device: "vulkan".into(),
            dtype: DTypeChoice::Given(DType::F32),
            max_seq_length: None,
            num_threads: None,
            memory_limit: None,
            default_task: None,
            class: Class::default(),
            float32_products: None,
            arguments: Arguments::default(),
            rounded_products: None,
            pooling: None,
        }
    }
}

/// Options of encoding texts.
#[derive(Debug, Clone)]
pub struct EncodeOptions {
    /// Prefix of every text.
    pub prompt: String,
    /// The task that chooses among the routes of a Router and among adapters; without effect in other models.
    pub task: Option<String>,
    /// Maximum texts per batch.
    pub batch_size: usize,
    /// Whether to return the tokens' vectors too.
    pub tokens: bool,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        EncodeOptions { prompt: String::new(), task: None, batch_size: 32, tokens: false }
    }
}

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

    /// Prompts, limits and similarity as the folder configures them.
    pub fn sentence_config(&self) -> &SentenceConfig {
        &self.sentence
    }

    /// Frees the device memory; later calls fail with `Unusable`.
    pub fn close(&self) {
        *self.runner.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }
}
