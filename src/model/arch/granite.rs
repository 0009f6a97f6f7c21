//! Granite (IBM 2024): LLaMA with factors on the embeddings, the scores and the result of each part.

use std::path::Path;

use serde_json::{Map, Value};

use super::llama;
use crate::Result;
use crate::model::spec::{EncoderSpec, NameRules};

/// Reads a `model_type: "granite"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    llama::read_as(config, path, &llama::KEYS, |fields, spec| {
        llama::biases(fields, spec);
        let [words, scores, parts] = ["embedding_multiplier", "attention_multiplier", "residual_multiplier"]
            .map(|key| fields.number_or(key, 1.0, 1e-6..=1e6) as f32);
        spec.word_scale = words;
        spec.score_scale = Some(scores);
        spec.residual_scale = parts;
    })
}
