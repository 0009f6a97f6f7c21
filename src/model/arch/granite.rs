//! Granite (IBM 2024): LLaMA with factors on the embeddings, the scores and the result of each part.

use super::config::{ConfigFile, Read};
use super::llama;

/// Reads a `model_type: "granite"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &llama::KEYS, |fields, spec| {
        llama::biases(fields, spec);
        let [words, scores, parts] = ["embedding_multiplier", "attention_multiplier", "residual_multiplier"]
            .map(|key| fields.number_or(key, 1.0, 1e-6..=1e6) as f32);
        spec.word_scale = words;
        spec.score_scale = Some(scores);
        spec.residual_scale = parts;
    })
}
