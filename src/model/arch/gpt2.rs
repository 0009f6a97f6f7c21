//! GPT-2 (Radford et al. 2019): pre-norm, causal, learned positions, transposed matrices.

use super::config::{self, ConfigFile, Keys, Read};
use crate::model::spec::{EncoderSpec, Layer, NameRules, Norms, Order, PositionRows, Positions, Product, Table};

pub(super) const KEYS: Keys = Keys {
    hidden: "n_embd",
    layers: "n_layer",
    heads: "n_head",
    intermediate: "n_inner",
    expansion: Some(4),
    positions: "n_positions",
    activation: ("activation_function", "gelu_new"),
    norm_eps: Some(("layer_norm_epsilon", 1e-5)),
};

/// Reads a `model_type: "gpt2"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let spec = config::read(config, &KEYS, |fields, spec| {
        names(spec);
        spec.causal = config::causal(fields);
    })?;
    let spec = spec.with_layers(|number| {
        let name = |part: &str| format!("h.{number}.{part}");
        let product = |part: &str| Product { order: Order::ByOperand, ..Product::biased([name(part)]) };
        Layer {
            query_key_value: product("attn.c_attn"),
            attention_output: product("attn.c_proj"),
            attention_norms: Norms::before(name("ln_1")),
            feed_forward_in: product("mlp.c_fc"),
            feed_forward_out: product("mlp.c_proj"),
            feed_forward_norms: Norms::before(name("ln_2")),
            ..config::layer(number)
        }
    });
    // The masks in older files.
    let ignored = vec!["*.attn.bias".into()];
    Ok((spec, NameRules { prefixes: vec!["transformer.".into()], ignored, ..NameRules::default() }))
}

/// The tables and the norm beside the layers.
pub(super) fn names(spec: &mut EncoderSpec) {
    spec.words.name = "wte.weight".into();
    let table = Table { name: "wpe.weight".into(), rows: spec.positions.longest_text() };
    spec.positions = Positions::Learned { table, rows: PositionRows::Counted };
    spec.embedding_norm = None;
    spec.final_norm = Some("ln_f".into());
}
