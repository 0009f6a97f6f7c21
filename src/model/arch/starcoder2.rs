//! StarCoder2 (Lozhkov et al. 2024): LLaMA with layer norms, biases, a feed-forward part without gates, and a window.

use super::config::{ConfigFile, Keys, Read};
use super::{llama, rope};
use crate::model::spec::{NormKind, Product};

/// Stored names of StarCoder2.
pub const MARKS: &[&str] = &["layers.0.mlp.c_fc.", "model.layers.0.mlp.c_fc."];
const KEYS: Keys =
    Keys { activation: ("hidden_act", "gelu_pytorch_tanh"), norm_eps: Some(("norm_epsilon", 1e-5)), ..llama::KEYS };

/// Reads a `model_type: "starcoder2"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &KEYS, |fields, spec| {
        spec.norm = NormKind::Layer { bias: true };
        spec.gated = false;
        let window = rope::stated_window(fields, spec);
        let bias = fields.flag_or("use_bias", true);
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            let product = |part: &str| Product { bias, ..Product::plain([format!("layers.{number}.mlp.{part}")]) };
            layer.window = window;
            (layer.query_key_value.bias, layer.attention_output.bias) = (bias, bias);
            (layer.feed_forward_in, layer.feed_forward_out) = (product("c_fc"), product("c_proj"));
        }
    })
}
