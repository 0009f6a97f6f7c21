//! DistilBERT (Sanh et al. 2019): BERT without segments, with its own tensor names.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::{self, Keys, name_rules};
use crate::Result;
use crate::model::spec::{EncoderSpec, Layer, NameRules, Norms, Product};

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
    let spec = config::read(config, path, &KEYS, |_, _| ())?.with_layers(|number| {
        let name = |part: &str| format!("transformer.layer.{number}.{part}");
        Layer {
            query_key_value: Product::biased(["q", "k", "v"].map(|part| name(&format!("attention.{part}_lin")))),
            attention_output: Product::biased([name("attention.out_lin")]),
            attention_norms: Norms::sum(name("sa_layer_norm")),
            feed_forward_in: Product::biased([name("ffn.lin1")]),
            feed_forward_out: Product::biased([name("ffn.lin2")]),
            feed_forward_norms: Norms::sum(name("output_layer_norm")),
            ..config::layer(number)
        }
    });
    Ok((spec, name_rules("distilbert.")))
}
