//! StableLM (2024): LLaMA with layer norms, rotary positions in a share of each head, and, if so configured, both parts of
//! a layer on the same operand.

use super::config::{ConfigFile, Keys, Read};
use super::{llama, rope};
use crate::model::spec::NormKind;

const KEYS: Keys = Keys { norm_eps: Some(("layer_norm_eps", 1e-5)), ..llama::KEYS };

/// Reads a `model_type: "stablelm"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &KEYS, |fields, spec| {
        rope::turn_share(fields, spec, 0.25);
        spec.norm = NormKind::Layer { bias: true };
        spec.parallel = fields.flag_or("use_parallel_residual", false);
        let bias = fields.flag_or("use_qkv_bias", false);
        for layer in &mut spec.layers {
            layer.query_key_value.bias = bias;
            if spec.parallel {
                layer.feed_forward_norms = layer.attention_norms.clone();
            }
        }
    })
}
