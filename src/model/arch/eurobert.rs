//! EuroBERT (Boizard et al. 2025): LLaMA in which a token sees all others.

use super::config::{ConfigFile, Keys, Read};
use super::llama;

const KEYS: Keys = Keys { norm_eps: Some(("rms_norm_eps", 1e-5)), ..llama::KEYS };

/// Reads a `model_type: "eurobert"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &KEYS, |fields, spec| {
        spec.causal = false;
        llama::biases(fields, spec);
    })
}
