//! Qwen3 (Yang et al. 2025): LLaMA with a norm of each head of the queries and the keys.

use super::config::{ConfigFile, Read};
use super::llama;
use crate::model::fields::Fields;
use crate::model::spec::EncoderSpec;

/// Reads a `model_type: "qwen3"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &llama::KEYS, |fields, spec| {
        head_norms(fields, spec, 128);
        llama::attention_biases(fields, spec);
        llama::last_windows(fields, spec);
        spec.own_norms = true;
    })
}

/// Norms of each head, which has `usual` columns unless configured otherwise.
pub(super) fn head_norms(fields: &Fields<'_>, spec: &mut EncoderSpec, usual: usize) {
    if fields.get("head_dim").is_none() {
        spec.head_dim = usual;
    }
    for (number, layer) in spec.layers.iter_mut().enumerate() {
        layer.head_norms = Some(["q_norm", "k_norm"].map(|norm| format!("layers.{number}.self_attn.{norm}")));
    }
}
