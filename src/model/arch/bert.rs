//! BERT (Devlin et al. 2018): post-norm, learned positions, segment embeddings.

use super::config::{self, BERT_KEYS, ConfigFile, Read, name_rules, segments};

/// Reads a `model_type: "bert"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    Ok((config::read(config, &BERT_KEYS, segments)?, name_rules("bert.")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Map, Value, json};

    use super::*;
    use crate::Error;
    use crate::model::registry::read_spec;
    use crate::model::spec::{PositionRows, Positions, Table};
    use crate::ops::ActivationKind;

    fn config(changes: Value) -> Map<String, Value> {
        let mut config = json!({
            "model_type": "bert", "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 64
        });
        let values = config.as_object_mut().unwrap();
        values.extend(changes.as_object().unwrap().clone());
        values.clone()
    }

    fn reading(changes: Value) -> Read {
        read_spec("bert", &config(changes), Path::new("config.json"))
    }

    #[test]
    fn optional_values_have_the_reference_defaults() {
        let (spec, _) = reading(json!({})).unwrap();
        assert_eq!((spec.activation, spec.norm_eps, spec.head_dim), (ActivationKind::GeluErf, 1e-12, 12));
        assert_eq!(spec.token_types.map(|table| table.rows), Some(2));
        assert_eq!(spec.positions.longest_text(), 64);
        assert_eq!(
            spec.positions,
            Positions::Learned {
                table: Table { name: "embeddings.position_embeddings.weight".into(), rows: 64 },
                rows: PositionRows::Counted
            }
        );
    }

    #[test]
    fn segments_may_be_few_or_none() {
        assert_eq!(reading(json!({"type_vocab_size": 0})).unwrap().0.token_types, None);
        assert_eq!(reading(json!({"type_vocab_size": 1})).unwrap().0.token_types.unwrap().rows, 1);
    }

    #[test]
    fn all_missing_values_are_named() {
        let error = read(ConfigFile { values: &Map::new(), path: Path::new("config.json") }).unwrap_err();
        assert!(matches!(error, Error::ModelFormat { .. }));
        let message = error.to_string();
        for key in ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"] {
            assert!(message.contains(&format!("{key} is missing")), "{message}");
        }
    }

    #[test]
    fn absurd_values_are_refused() {
        for key in [
            "hidden_size",
            "num_hidden_layers",
            "num_attention_heads",
            "intermediate_size",
            "vocab_size",
            "max_position_embeddings",
        ] {
            for value in
                [json!(0), json!(-1), json!(2.5), json!("12"), json!(1u64 << 40), json!(1e300), json!([3]), json!(true)]
            {
                let error = reading(json!({key: value})).unwrap_err();
                assert!(matches!(error, Error::ModelFormat { .. }), "{key} {value}: {error}");
                assert!(error.to_string().contains(key));
            }
        }
        for changes in [
            json!({"num_attention_heads": 5}),
            json!({"num_hidden_layers": 10_001}),
            json!({"layer_norm_eps": -1.0}),
            json!({"layer_norm_eps": "small"}),
            json!({"type_vocab_size": -2}),
            json!({"hidden_act": {"name": "gelu"}}),
        ] {
            assert!(matches!(reading(changes.clone()), Err(Error::ModelFormat { .. })), "{changes}");
        }
    }

    #[test]
    fn other_meanings_are_unsupported() {
        for changes in [
            json!({"hidden_act": "mish"}),
            json!({"position_embedding_type": "relative_key"}),
            json!({"add_cross_attention": true}),
            json!({"is_causal": true}),
            json!({"per_layer_config": {"0": {"hidden_act": "relu"}}}),
        ] {
            assert!(matches!(reading(changes.clone()), Err(Error::Unsupported { .. })), "{changes}");
        }
        // Heads are pruned by their tensors' shapes; the reference reads no key for it.
        for harmless in [json!({"is_decoder": false}), json!({"pruned_heads": {"0": [1]}}), json!({"is_causal": null})]
        {
            assert_eq!(reading(harmless).unwrap().0, reading(json!({})).unwrap().0);
        }
        assert!(reading(json!({"is_decoder": true})).unwrap().0.causal);
    }

    #[test]
    fn names_become_uniform() {
        let rules = reading(json!({})).unwrap().1;
        let uniform = |name| rules.uniform(name);
        assert_eq!(uniform("bert.embeddings.LayerNorm.gamma"), "embeddings.LayerNorm.weight");
        assert_eq!(uniform("encoder.layer.3.output.LayerNorm.beta"), "encoder.layer.3.output.LayerNorm.bias");
        assert_eq!(uniform("encoder.layer.3.output.dense.bias"), "encoder.layer.3.output.dense.bias");
        for unused in ["bert.embeddings.position_ids", "pooler.dense.weight"] {
            assert!(rules.ignores(&uniform(unused)));
        }
    }
}
