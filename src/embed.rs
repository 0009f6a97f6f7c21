//! The whole path from texts to embeddings.

use std::path::Path;

use ndarray::Array2;

use crate::Result;
use crate::backend::BackendKind;

/// How a model is loaded.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// `"vulkan"` (the default when empty), `"vulkan:N"` or `"cpu"`.
    pub device: String,
    /// Most tokens of a text; `None` for the model's own limit. A larger value than the position table allows is
    /// lowered to it with a warning.
    pub max_seq_length: Option<usize>,
    /// CPU threads; `None` for as many as the process may use.
    pub num_threads: Option<usize>,
    /// Most bytes of device memory.
    pub memory_limit: Option<u64>,
}

/// How texts are encoded.
#[derive(Debug, Clone)]
pub struct EncodeOptions {
    /// Put before every text.
    pub prompt: String,
    /// Most texts of one batch.
    pub batch_size: usize,
    /// Whether the tokens' vectors are wanted too.
    pub tokens: bool,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        EncodeOptions { prompt: String::new(), batch_size: 32, tokens: false }
    }
}

/// What [`EmbeddingModel::encode`] gives, in the order of the texts.
#[derive(Debug, Clone, Default)]
pub struct Encoded {
    /// One row a text, as the model's modules leave it (normalised only if the model says so).
    pub sentences: Array2<f32>,
    /// The encoder's last hidden state of each text, `[tokens, hidden]`; empty unless asked for.
    pub tokens: Vec<Array2<f32>>,
    /// Token ids of each text; empty unless the tokens' vectors were asked for.
    pub ids: Vec<Vec<u32>>,
}

/// A sentence-embedding model, ready on a device.
pub struct EmbeddingModel {}

impl EmbeddingModel {
    /// Loads the model in `folder`.
    ///
    /// # Errors
    /// `ModelFormat`, `Weights`, `Unsupported` for what is wrong with the folder; `IndexOutOfRange` and
    /// `DeviceUnavailable` for the device.
    pub fn load(_folder: &Path, _options: &LoadOptions) -> Result<Self> {
        todo!()
    }

    /// Embeddings of `texts`. `progress` is called after each batch with the number of texts done so far; its error
    /// stops the run.
    ///
    /// # Errors
    /// `InvalidArgument` for a batch size of 0, `NotFinite` naming the texts, `Unusable` after `close` or a fork,
    /// and whatever `progress` returns.
    pub fn encode(
        &self,
        _texts: &[String],
        _options: &EncodeOptions,
        _progress: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Encoded> {
        todo!()
    }

    /// Token ids of each text, special tokens included, truncated to the limit.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn tokenize(&self, _texts: &[String]) -> Result<Vec<Vec<u32>>> {
        todo!()
    }

    /// Where batches run now; changes when a device fault has made the CPU take over.
    pub fn backend(&self) -> BackendKind {
        todo!()
    }

    /// Name of that device, and why it was chosen.
    pub fn device(&self) -> (String, String) {
        todo!()
    }

    /// Columns of an embedding.
    pub fn dimension(&self) -> usize {
        todo!()
    }

    /// Most tokens of a text.
    pub fn max_seq_length(&self) -> usize {
        todo!()
    }

    /// Changes the limit; lowered with a warning to what the position table allows.
    pub fn set_max_seq_length(&self, _most: usize) {
        todo!()
    }

    /// Changes whether a prompt's tokens are pooled.
    pub fn set_pooling_include_prompt(&self, _include: bool) {
        todo!()
    }

    /// `config.json` as text.
    pub fn config_json(&self) -> &str {
        todo!()
    }

    /// `model_type` of config.json.
    pub fn model_type(&self) -> &str {
        todo!()
    }

    /// Prompts, limits and similarity as the folder configures them.
    pub fn sentence_config(&self) -> &crate::model::config::SentenceConfig {
        todo!()
    }

    /// Names of the modules in order, each with one line of its settings, e.g. `Pooling: mean`.
    pub fn modules(&self) -> Vec<(String, String)> {
        todo!()
    }

    /// The plan, one line a step.
    pub fn plan_text(&self) -> String {
        todo!()
    }

    /// Frees the device memory; later calls fail with `Unusable`.
    pub fn close(&self) {
        todo!()
    }
}
