//! OLMo 2 (Walsh et al. 2024): LLaMA with norms after the parts, and of all heads of the queries and the keys together.

use super::config::{ConfigFile, Keys, Read};
use super::llama;
use crate::model::spec::Norms;

const KEYS: Keys = Keys { norm_eps: Some(("rms_norm_eps", 1e-5)), ..llama::KEYS };

/// Reads a `model_type: "olmo2"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &KEYS, |fields, spec| {
        llama::attention_biases(fields, spec);
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            let after = |part: &str| Norms {
                after: Some(format!("layers.{number}.post_{part}_layernorm")),
                ..Norms::default()
            };
            layer.attention_norms = after("attention");
            layer.feed_forward_norms = after("feedforward");
            layer.head_norms = Some(["q_norm", "k_norm"].map(|norm| format!("layers.{number}.self_attn.{norm}")));
            layer.joint_head_norms = true;
        }
    })
}
