//! DistilBERT (Sanh et al. 2019): BERT without segments, with its own tensor names.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::{self, Keys, name_rules};
use crate::Result;
use crate::model::spec::{EncoderSpec, LayerNames, NameRules};

const KEYS: Keys = Keys {
    hidden: "dim",
    layers: "n_layers",
    heads: "n_heads",
    intermediate: "hidden_dim",
    expansion: None,
    positions: "max_position_embeddings",
    activation: ("activation", "gelu"),
    norm_eps: None,
};

/// Reads a `model_type: "distilbert"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    let name = |part: &str| format!("transformer.layer.{{}}.{part}");
    let names = LayerNames {
        query_key_value: ["q", "k", "v"].map(|part| name(&format!("attention.{part}_lin"))).into(),
        attention_output: name("attention.out_lin"),
        attention_norm: name("sa_layer_norm"),
        feed_forward_in: name("ffn.lin1"),
        feed_forward_out: name("ffn.lin2"),
        feed_forward_norm: name("output_layer_norm"),
    };
    let spec = EncoderSpec { names, ..config::read(config, path, &KEYS, |_, _| ())? };
    Ok((spec, name_rules("distilbert.", &["vocab_*", "pre_classifier.*"])))
}
