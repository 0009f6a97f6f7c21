//! Jina v3 (Sturua et al. 2024) in transformers' format, without its adapters: BERT with rotary positions.

use super::config::{self, BERT_KEYS, ConfigFile, Keys, Read};
use super::rotary_bert::{self, OwnNames, QUERY_KEY_VALUE};
use crate::model::fields::{shown, unsupported};
use crate::model::spec::{Layer, Product};

const KEYS: Keys = Keys { norm_eps: Some(("layer_norm_eps", 1e-5)), ..BERT_KEYS };

/// Reads a `model_type: "jina_embeddings_v3"` configuration.
///
/// # Errors
/// As [`config::read`]; `Unsupported` for a model with adapters.
pub fn read(config: ConfigFile<'_>) -> Read {
    if let Some(tasks) = config.values.get("lora_adaptations").filter(|value| !value.is_null()) {
        let remedy =
            "adapters for tasks are read in the format of Jina's own code, whose model_type is \"xlm-roberta\"";
        return Err(unsupported(config.path, format_args!("lora_adaptations {}", shown(tasks)), remedy));
    }
    let spec = config::read(config, &KEYS, |fields, spec| {
        rotary_bert::rotary(fields, spec, ("rope_theta", 20_000.0));
    })?;
    let spec = spec.with_layers(|number| Layer {
        feed_forward_in: Product::biased([format!("layers.{number}.mlp.fc1")]),
        feed_forward_out: Product::biased([format!("layers.{number}.mlp.fc2")]),
        ..rotary_bert::layer(number)
    });
    let names = OwnNames {
        prefixes: &["roberta."],
        starts: &[("encoder.layers.", "layers."), ("emb_ln.", "embeddings.LayerNorm.")],
        parts: &[
            ("mixer.out_proj", "self_attn.o_proj"),
            ("norm1", "post_attention_layernorm"),
            ("norm2", "post_mlp_layernorm"),
        ],
        stacked: &[("mixer.Wqkv", QUERY_KEY_VALUE)],
    };
    Ok((spec, names.rules()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::model::rotary::Rotary;

    #[test]
    fn defaults_are_the_references_and_adapters_are_refused() {
        let mut config = json!({"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
            "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 66});
        let config = config.as_object_mut().unwrap();
        let (spec, rules) = read(ConfigFile { values: config, path: Path::new("config.json") }).unwrap();
        assert_eq!((&spec.rotary[..], spec.norm_eps), (&[Rotary::new(20_000.0, 12)][..], 1e-5));
        assert!(spec.token_types.is_some_and(|table| table.rows == 1) && !spec.gated);
        let stored = rules.uniform("roberta.encoder.layers.0.mixer.Wqkv.bias");
        assert_eq!(rules.blocks(stored)[2], "layers.0.self_attn.v_proj.bias");
        config.insert("lora_adaptations".into(), json!(["retrieval.query"]));
        let error = read(ConfigFile { values: config, path: Path::new("config.json") }).unwrap_err().to_string();
        assert!(error.contains("lora_adaptations [\"retrieval.query\"]"), "{error}");
    }
}
