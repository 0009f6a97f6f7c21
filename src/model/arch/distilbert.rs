//! DistilBERT (Sanh et al. 2019): BERT without segments, with its own tensor names.

use super::config::{self, BERT_KEYS, ConfigFile, Keys, Read, name_rules};
use crate::model::spec::{Layer, Norms, Product};

const KEYS: Keys = Keys {
    hidden: "dim",
    layers: "n_layers",
    heads: "n_heads",
    intermediate: "hidden_dim",
    activation: ("activation", "gelu"),
    norm_eps: None,
    ..BERT_KEYS
};

/// Reads a `model_type: "distilbert"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let spec = config::read(config, &KEYS, |_, _| ())?.with_layers(|number| {
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
