//! Phi (Li et al. 2023): GPT-NeoX with separate projections and one norm for both parts of a layer.

use super::config::{ConfigFile, Keys, Read};
use super::{llama, rope};
use crate::model::spec::{Layer, NormKind, Norms, Product};

/// Stored names of Phi.
pub const MARKS: &[&str] = &["layers.0.self_attn.dense.", "model.layers.0.self_attn.dense."];
const KEYS: Keys =
    Keys { activation: ("hidden_act", "gelu_new"), norm_eps: Some(("layer_norm_eps", 1e-5)), ..llama::KEYS };

/// Reads a `model_type: "phi"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    llama::read_as(config, &KEYS, |fields, spec| {
        rope::turn_share(fields, spec, 0.5);
        spec.norm = NormKind::Layer { bias: true };
        spec.gated = false;
        spec.parallel = true;
        spec.final_norm = Some("final_layernorm".into());
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            let name = |part: &str| format!("layers.{number}.{part}");
            let read = layer.clone();
            *layer = Layer {
                query_key_value: Product { bias: true, ..read.query_key_value },
                attention_output: Product::biased([name("self_attn.dense")]),
                feed_forward_in: Product::biased([name("mlp.fc1")]),
                feed_forward_out: Product::biased([name("mlp.fc2")]),
                feed_forward_norms: Norms::before(name("input_layernorm")),
                ..read
            };
        }
    })
}
