//! EuroBERT (Boizard et al. 2025): LLaMA in which a token sees all others.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::Keys;
use super::llama;
use crate::Result;
use crate::model::spec::{EncoderSpec, NameRules};

const KEYS: Keys = Keys { norm_eps: Some(("rms_norm_eps", 1e-5)), ..llama::KEYS };

/// Reads a `model_type: "eurobert"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    llama::read_as(config, path, &KEYS, |fields, spec| {
        spec.causal = false;
        llama::biases(fields, spec);
    })
}
