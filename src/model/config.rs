//! The small JSON files of a model's folder.

use std::path::Path;

use crate::Result;

/// `config_sentence_transformers.json` and `sentence_bert_config.json`, with their defaults filled in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SentenceConfig {
    /// Prompts by name, in the file's order.
    pub prompts: Vec<(String, String)>,
    /// The prompt used when none is asked for.
    pub default_prompt_name: Option<String>,
    /// `cosine`, `dot`, `euclidean` or `manhattan`.
    pub similarity_fn_name: Option<String>,
    /// Dimensions kept of each embedding.
    pub truncate_dim: Option<usize>,
    /// The model's own limit of tokens a text.
    pub max_seq_length: Option<usize>,
    /// Whether texts are lower-cased before tokenizing.
    pub do_lower_case: bool,
}

/// Reads both files where they exist (`transformer` is the Transformer module's folder).
///
/// # Errors
/// `ModelFormat` for files that cannot be read or hold absurd values.
pub fn read_sentence_config(_folder: &Path, _transformer: &Path) -> Result<SentenceConfig> {
    todo!()
}

/// Reads a JSON file as an object.
///
/// # Errors
/// `ModelFormat` naming the file.
pub fn read_json(_path: &Path) -> Result<serde_json::Map<String, serde_json::Value>> {
    todo!()
}
