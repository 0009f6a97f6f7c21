//! GTE from version 1.5 on (Zhang et al. 2024): BERT with rotary positions and a gated feed-forward part.

use super::config::{self, BERT_KEYS, ConfigFile, Read};
use super::rotary_bert::{self, OwnNames, QUERY_KEY_VALUE};
use crate::model::spec::{Layer, Product};

/// Reads a `model_type: "gte"` configuration, or a `"new"` one, as the model's own code on the hub writes it.
///
/// `base` stands in for a missing `rope_theta`.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>, base: f64) -> Read {
    let spec = config::read(config, &BERT_KEYS, |fields, spec| {
        rotary_bert::rotary(fields, spec, ("rope_theta", base));
        spec.gated = true;
    })?;
    let spec = spec.with_layers(|number| {
        let layer = rotary_bert::layer(number);
        Layer { feed_forward_in: Product { bias: false, ..layer.feed_forward_in }, ..layer }
    });
    let names = OwnNames {
        prefixes: &["gte.", "new."],
        starts: &[("encoder.layer.", "layers.")],
        parts: &[
            ("attention.q_proj", "self_attn.q_proj"),
            ("attention.k_proj", "self_attn.k_proj"),
            ("attention.v_proj", "self_attn.v_proj"),
            ("attention.o_proj", "self_attn.o_proj"),
            ("attn_ln", "post_attention_layernorm"),
            ("mlp_ln", "post_mlp_layernorm"),
        ],
        stacked: &[("attention.qkv_proj", QUERY_KEY_VALUE), ("mlp.up_gate_proj", &["mlp.up_proj", "mlp.gate_proj"])],
    };
    Ok((spec, names.rules()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::model::registry::read_spec;
    use crate::model::rotary::Rotary;

    fn reading(changes: Value) -> Read {
        let mut config = json!({"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
            "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 66});
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        read_spec("new", config.as_object().unwrap(), Path::new("config.json"))
    }

    #[test]
    fn defaults_are_those_of_its_code() {
        let (spec, rules) = reading(json!({"position_embedding_type": "rope"})).unwrap();
        assert_eq!((&spec.rotary[..], spec.token_types.unwrap().rows), (&[Rotary::new(10_000.0, 12)][..], 1));
        assert_eq!(reading(json!({"type_vocab_size": 0})).unwrap().0.token_types, None);
        let both = rules.uniform("new.encoder.layer.0.mlp.up_gate_proj.weight");
        assert_eq!(rules.blocks(both), ["layers.0.mlp.up_proj.weight", "layers.0.mlp.gate_proj.weight"]);
    }

    #[test]
    fn ntk_lowers_the_frequencies() {
        let spec = reading(json!({"rope_theta": 100, "rope_scaling": {"type": "ntk", "factor": 8.0}})).unwrap().0;
        let expected = (0..6).map(|pair| 800f64.powf(f64::from(pair) / -6.0) * 8f64.powf(-1.0 / 6.0));
        for (found, expected) in spec.rotary[0].frequencies.iter().zip(expected) {
            assert!((f64::from(*found) / expected - 1.0).abs() < 1e-6, "{found} {expected}");
        }
        let mixed = reading(json!({"rope_scaling": {"type": "ntk", "factor": 8.0, "mixed_b": 0.6}}));
        assert!(mixed.unwrap_err().to_string().contains("rope_scaling: mixed_b is 0.6"));
    }

    #[test]
    fn variants_are_refused_by_name() {
        let refused = json!({"position_embedding_type": "absolute", "layer_norm_type": "rms_norm",
            "logn_attention_scale": true});
        for (key, value) in refused.as_object().unwrap() {
            let error = reading(json!({key: value})).unwrap_err();
            assert!(
                matches!(error, crate::Error::Unsupported { .. }) && error.to_string().contains(key.as_str()),
                "{error}"
            );
        }
    }
}
