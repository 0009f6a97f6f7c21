//! BERT (Devlin et al. 2018): post-norm, learned positions, segment embeddings.

use std::path::Path;

use crate::Result;
use crate::model::spec::{EncoderSpec, NameRules};

/// Reads a `model_type: "bert"` configuration.
///
/// # Errors
/// `ModelFormat` naming the value that is missing or absurd.
pub fn read(_config: &serde_json::Map<String, serde_json::Value>, _path: &Path) -> Result<(EncoderSpec, NameRules)> {
    todo!()
}
