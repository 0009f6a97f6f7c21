//! Phi-3 and Phi-4-mini (Abdin et al. 2024): LLaMA with joint products and rotary positions in a share of each head.

use serde_json::Value;

use super::config::{ConfigFile, Keys, Read};
use super::{llama, rope};
use crate::model::spec::{Order, Product};

/// Stored names of Phi-3.
pub const MARKS: &[&str] = &["layers.0.self_attn.qkv_proj.", "model.layers.0.self_attn.qkv_proj."];
const KEYS: Keys = Keys { norm_eps: Some(("rms_norm_eps", 1e-5)), ..llama::KEYS };

/// Reads a `model_type: "phi3"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let mut values = config.values.clone();
    for parameters in ["rope_parameters", "rope_scaling"].map(|key| values.remove(key).map(|value| (key, value))) {
        let Some((key, mut value)) = parameters else { continue };
        // What this family calls so is "longrope".
        let kind = value.get("rope_type").or(value.get("type")).cloned();
        if let (Some("yarn"), Value::Object(value)) = (kind.as_ref().and_then(Value::as_str), &mut value) {
            value.insert("rope_type".into(), "longrope".into());
        }
        values.insert(key.into(), value);
    }
    llama::read_as(ConfigFile { values: &values, ..config }, &KEYS, |fields, spec| {
        let window = rope::stated_window(fields, spec);
        rope::turn_share(fields, spec, 1.0);
        for (number, layer) in spec.layers.iter_mut().enumerate() {
            layer.window = window;
            layer.query_key_value = Product::plain([format!("layers.{number}.self_attn.qkv_proj")]);
            let joint = Product::plain([format!("layers.{number}.mlp.gate_up_proj")]);
            layer.feed_forward_in = Product { order: Order::GateFirst, ..joint };
        }
    })
}
