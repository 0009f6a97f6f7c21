//! BitNet b1.58 (Ma et al. 2025): LLaMA with squared ReLU and a norm of what the second product of each part reads.

use super::config::{ConfigFile, Read};
use super::{config, llama, rope};
use crate::model::spec::BeyondFloat16;

const KEYS: config::Keys =
    config::Keys { activation: ("hidden_act", "relu2"), norm_eps: Some(("rms_norm_eps", 1e-5)), ..llama::KEYS };

/// Reads a `model_type: "bitnet"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &KEYS, |fields, spec| {
        llama::attention_biases(fields, spec);
        spec.activation_squared = fields.text("hidden_act").is_none_or(|name| name == "relu2");
        if spec.activation_squared {
            // Squares of what float16 holds.
            spec.beyond_float16 = BeyondFloat16::ResidualStream;
        }
        spec.rotary = vec![rope::read(fields, spec.head_dim, ("rope_theta", 500_000.0))];
        if spec.heads * spec.head_dim != spec.hidden {
            let (heads, hidden) = (spec.heads * spec.head_dim, spec.hidden);
            fields.fault(format!("the heads have {heads} columns together, expected hidden_size {hidden}"));
        }
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            layer.attention_output.norms = vec![format!("layers.{number}.self_attn.attn_sub_norm")];
            layer.feed_forward_out.norms = vec![format!("layers.{number}.mlp.ffn_sub_norm")];
        }
    })
}
