//! ALBERT (Lan et al. 2020): BERT with layers that share their tensors, and embeddings of a separate width.

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_COLUMNS, MOST_LAYERS, Read, name_rules, segments};
use crate::model::spec::{Layer, Norms, Product};

const KEYS: Keys = Keys { activation: ("hidden_act", "gelu_new"), ..BERT_KEYS };
/// `embedding_size` if missing in the configuration.
const EMBEDDING: usize = 128;

/// Reads a `model_type: "albert"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let (mut groups, mut inner) = (1, 1);
    let mut spec = config::read(config, &KEYS, |fields, spec| {
        spec.embedding = fields.optional_size("embedding_size", 1..=MOST_COLUMNS).unwrap_or(EMBEDDING);
        spec.embedding_projection = Some("encoder.embedding_hidden_mapping_in".into());
        let repeats = spec.layers.len();
        groups = fields.optional_size("num_hidden_groups", 1..=repeats).unwrap_or(1);
        inner = fields.optional_size("inner_group_num", 1..=MOST_LAYERS / repeats).unwrap_or(1);
        segments(fields, spec);
    })?;
    let repeats = spec.layers.len();
    // In float64 as in the reference, so that a layer at a boundary is in the same group.
    let group = |repeat: usize| (repeat as f64 / (repeats as f64 / groups as f64)) as usize;
    spec.layers = (0..repeats * inner).map(|number| layer(group(number / inner), number % inner)).collect();
    Ok((spec, name_rules("albert.")))
}

/// A layer of a group.
fn layer(group: usize, number: usize) -> Layer {
    let name = |part: &str| format!("encoder.albert_layer_groups.{group}.albert_layers.{number}.{part}");
    let attention = |part: &str| name(&format!("attention.{part}"));
    Layer {
        query_key_value: Product::biased(["query", "key", "value"].map(attention)),
        attention_output: Product::biased([attention("dense")]),
        attention_norms: Norms::sum(attention("LayerNorm")),
        feed_forward_in: Product::biased([name("ffn")]),
        feed_forward_out: Product::biased([name("ffn_output")]),
        feed_forward_norms: Norms::sum(name("full_layer_layer_norm")),
        ..config::layer(number)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::ops::ActivationKind;

    fn reading(changes: Value) -> Read {
        let mut config = json!({"hidden_size": 48, "num_hidden_layers": 5, "num_attention_heads": 4, "vocab_size": 9,
            "intermediate_size": 96, "max_position_embeddings": 66});
        let config = config.as_object_mut().unwrap();
        config.extend(changes.as_object().unwrap().clone());
        read(ConfigFile { values: config, path: Path::new("config.json") })
    }

    /// Group and number of each layer.
    fn places(changes: Value) -> Vec<(usize, usize)> {
        let digits = |layer: &Layer| -> Vec<usize> {
            layer.feed_forward_out.names[0].split('.').filter_map(|part| part.parse().ok()).collect()
        };
        reading(changes).unwrap().0.layers.iter().map(|layer| (digits(layer)[0], digits(layer)[1])).collect()
    }

    #[test]
    fn layers_share_the_tensors_of_their_group() {
        assert_eq!(places(json!({})), [(0, 0); 5]);
        assert_eq!(places(json!({"num_hidden_groups": 2})), [(0, 0), (0, 0), (0, 0), (1, 0), (1, 0)]);
        let inner = json!({"num_hidden_layers": 3, "num_hidden_groups": 3, "inner_group_num": 2});
        assert_eq!(places(inner), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]);
        for (key, value) in [("num_hidden_groups", 6), ("num_hidden_groups", 0), ("inner_group_num", 2001)] {
            let error = reading(json!({key: value})).unwrap_err().to_string();
            assert!(error.contains(&format!("{key} is {value}, expected a whole number from 1")), "{error}");
        }
    }

    #[test]
    fn the_defaults_are_the_references() {
        let (spec, rules) = reading(json!({})).unwrap();
        assert_eq!((spec.embedding, spec.activation, spec.norm_eps), (128, ActivationKind::GeluTanh, 1e-12));
        assert_eq!(spec.token_types.unwrap().rows, 2);
        assert!(rules.ignores(&rules.uniform("albert.pooler.weight")));
        assert_eq!(rules.uniform("albert.embeddings.LayerNorm.bias"), "embeddings.LayerNorm.bias");
    }
}
