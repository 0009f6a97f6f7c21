//! The complete path from texts to embeddings.

mod decode;
mod load;
mod parts;
mod run;
mod stages;
mod tokens;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

use ndarray::Array2;

use crate::backend::BackendKind;
use crate::dtype::DType;
use crate::model::config::SentenceConfig;
use crate::model::dtype::DTypeChoice;
use crate::model::encoder::outputs;
use crate::model::heads::{First, Head, Modules};
use crate::model::spec::EncoderSpec;
use crate::text::tokenizer::{Tokenizer, Tokens};
use crate::{Error, Result};
pub use decode::DecodeOptions;
use parts::Parts;
use stages::{Runner, Source};

/// Options of loading a model.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// `"vulkan"`, `"vulkan:N"` or `"cpu"`.
    pub device: String,
    /// The type to which weights are rounded, and in which a device stores the encoder's numbers; the CPU stores
    /// float32.
    pub dtype: DTypeChoice,
    /// Maximum tokens of a text; `None` for the model's own limit. A value above the limit of the position table is
    /// reduced to that limit with a warning.
    pub max_seq_length: Option<usize>,
    /// CPU threads; `None` for all that the process may use.
    pub num_threads: Option<usize>,
    /// Maximum bytes of device memory.
    pub memory_limit: Option<u64>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            device: "vulkan".into(),
            dtype: DTypeChoice::Given(DType::F32),
            max_seq_length: None,
            num_threads: None,
            memory_limit: None,
        }
    }
}

/// Options of encoding texts.
#[derive(Debug, Clone)]
pub struct EncodeOptions {
    /// Prefix of every text.
    pub prompt: String,
    /// Maximum texts per batch.
    pub batch_size: usize,
    /// Whether to return the tokens' vectors too.
    pub tokens: bool,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        EncodeOptions { prompt: String::new(), batch_size: 32, tokens: false }
    }
}

/// The result of [`EmbeddingModel::encode`], in the order of the texts.
#[derive(Debug, Clone, Default)]
pub struct Encoded {
    /// One row per text, as computed by the model's modules (normalised only if the model has such a module).
    pub sentences: Array2<f32>,
    /// The encoder's last hidden state of each text, `[tokens, hidden]`; empty unless [`EncodeOptions::tokens`] is set.
    pub tokens: Vec<Array2<f32>>,
    /// Token ids of each text; empty unless [`EncodeOptions::tokens`] is set.
    pub ids: Vec<Vec<u32>>,
}

/// A sentence-embedding model, ready on a device.
///
/// ```no_run
/// use grilly::{EmbeddingModel, EncodeOptions};
/// let model = EmbeddingModel::load("all-MiniLM-L6-v2".as_ref(), &Default::default())?;
/// let encoded = model.encode(&["A text.".to_owned()], &EncodeOptions::default(), &mut |_| Ok(()))?;
/// assert_eq!(encoded.sentences.dim(), (1, model.dimension()));
/// # Ok::<(), grilly::Error>(())
/// ```
pub struct EmbeddingModel {
    folder: PathBuf,
    config_json: String,
    model_type: String,
    sentence: SentenceConfig,
    modules: Modules,
    spec: EncoderSpec,
    tokenizer: Tokenizer,
    /// The tokenizer's own threads if their number was given; otherwise it uses the process' threads.
    tokenizer_threads: Option<rayon::ThreadPool>,
    source: Source,
    max_seq_length: AtomicUsize,
    include_prompt: AtomicBool,
    /// `None` once closed.
    runner: RwLock<Option<Arc<Runner>>>,
    /// The process that loaded the model: device and threads do not survive a fork.
    process: u32,
}

impl EmbeddingModel {
    /// Computes the embeddings of `texts`. `progress` is called with the number of texts done so far, after each batch
    /// and each part of the tokenizing; an error that it returns stops the run.
    ///
    /// # Errors
    /// `InvalidArgument` for a batch size of 0, `NotFinite` naming the texts, `Unusable` after `close` or a fork,
    /// and whatever `progress` returns.
    pub fn encode(
        &self,
        texts: &[String],
        options: &EncodeOptions,
        progress: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Encoded> {
        let runner = self.runner()?;
        if options.batch_size == 0 {
            return Err(Error::InvalidArgument("batch_size is 0, expected at least 1".into()));
        }
        let encoded = Encoded {
            sentences: Array2::zeros((texts.len(), self.dimension())),
            tokens: if options.tokens { vec![Array2::default((0, 0)); texts.len()] } else { Vec::new() },
            ids: Vec::new(),
        };
        let mut work = run::Work {
            first: self.unpooled_tokens(&options.prompt)?,
            wanted: if options.tokens { &[outputs::SENTENCES, outputs::TOKENS] } else { &[outputs::SENTENCES] },
            ..run::Work::new(&self.source.encoder, self.spec.hidden, options.batch_size, encoded)
        };
        std::thread::scope(|scope| {
            let tokenize = |part: Range<usize>| self.tokens_of(texts, part, &options.prompt);
            let mut parts = match runner.kind {
                BackendKind::Vulkan => Parts::ahead(scope, texts, tokenize),
                BackendKind::Cpu => Parts::in_turn(texts, tokenize),
            };
            self.run(runner, &mut work, &mut parts, progress)
        })?;
        if options.tokens {
            work.encoded.ids = work.tokens.into_iter().map(|text| text.ids).collect();
        }
        Ok(work.encoded)
    }

    /// Token ids of each text, special tokens included, truncated to the limit.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn tokenize(&self, texts: &[String]) -> Result<Vec<Vec<u32>>> {
        Ok(self.tokenize_with_segments(texts)?.into_iter().map(|text| text.ids).collect())
    }

    /// The tokens of some of the texts, with ids checked against the embedding tables.
    fn tokens_of(&self, texts: &[String], part: Range<usize>, prompt: &str) -> Result<Vec<Tokens>> {
        let (first, most) = (part.start, self.max_seq_length());
        let texts = &texts[part];
        let encode = || {
            if prompt.is_empty() {
                return self.tokenizer.encode(texts, most);
            }
            let texts: Vec<String> = texts.iter().map(|text| format!("{prompt}{text}")).collect();
            self.tokenizer.encode(&texts, most)
        };
        let encoded = match &self.tokenizer_threads {
            Some(threads) => threads.install(encode),
            None => encode(),
        };
        let tokens = encoded.map_err(|error| match error {
            Error::InvalidArgument(problem) if first > 0 => {
                Error::InvalidArgument(format!("after {first} texts: {problem}"))
            }
            other => other,
        })?;
        let segments = self.spec.token_types.as_ref().map_or(usize::MAX, |table| table.rows);
        for (position, text) in (first..).zip(&tokens) {
            let looked_up = [
                ("token id", &text.ids, "embedding", self.spec.words.rows),
                ("segment", &text.type_ids, "segment", segments),
            ];
            for (what, ids, table, rows) in looked_up {
                let most = ids.iter().copied().max().unwrap_or(0) as usize;
                if most >= rows {
                    let problem = format!("text {position} has {what} {most}, but the {table} table has {rows} rows");
                    return Err(Error::IndexOutOfRange(problem));
                }
            }
        }
        Ok(tokens)
    }

    /// Number of leading tokens of every text that pooling leaves out.
    fn unpooled_tokens(&self, prompt: &str) -> Result<usize> {
        if prompt.is_empty() || self.include_prompt.load(Relaxed) {
            return Ok(0);
        }
        self.tokenizer.prompt_length(prompt, self.max_seq_length())
    }

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

    /// Columns of an embedding.
    pub fn dimension(&self) -> usize {
        let graph = &self.source.encoder.plan.graph;
        graph.value(graph.outputs[outputs::SENTENCES]).shape.columns()
    }

    /// Maximum tokens of a text.
    pub fn max_seq_length(&self) -> usize {
        self.max_seq_length.load(Relaxed)
    }

    /// Changes the limit; a value above the limit of the position table is reduced to it with a warning.
    pub fn set_max_seq_length(&self, most: usize) {
        self.max_seq_length.store(load::clamp_length(most, &self.spec), Relaxed);
    }

    /// The type to which the weights are rounded.
    pub fn dtype(&self) -> DType {
        self.source.weights.rounded
    }

    /// Changes whether a prompt's tokens are pooled.
    pub fn set_pooling_include_prompt(&self, include: bool) {
        self.include_prompt.store(include, Relaxed);
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

    /// Names of the modules in order, each with one line of its settings, e.g. `Pooling: mean`.
    pub fn modules(&self) -> Vec<(String, String)> {
        let spec = &self.spec;
        let transformer = format!("{}, {} layers of {}", self.model_type, spec.layers.len(), spec.hidden);
        // The mean is part of a StaticEmbedding.
        let (mut modules, heads) = match self.modules.first {
            First::Transformer => (vec![("Transformer".to_owned(), transformer)], &self.modules.heads[..]),
            First::StaticEmbedding => {
                let table = format!("{} tokens of {}", spec.words.rows, spec.hidden);
                (vec![("StaticEmbedding".to_owned(), table)], &self.modules.heads[1..])
            }
        };
        modules.extend(heads.iter().map(|head| match head {
            Head::Pooling { modes, .. } => {
                let modes: Vec<&str> = modes.iter().map(|mode| mode.name()).collect();
                ("Pooling".to_owned(), modes.join("+"))
            }
            Head::Dense { input, output, activation, .. } => {
                ("Dense".to_owned(), format!("{input} to {output}, {activation:?}"))
            }
            Head::LayerNorm { dimension, .. } => ("LayerNorm".to_owned(), format!("{dimension}")),
            Head::Normalize => ("Normalize".to_owned(), String::new()),
        }));
        modules
    }

    /// The plan as text, one line per step.
    pub fn plan_text(&self) -> String {
        self.source.encoder.plan.to_string()
    }

    /// Frees the device memory; later calls fail with `Unusable`.
    pub fn close(&self) {
        *self.runner.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }
}
