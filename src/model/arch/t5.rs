//! T5 and mT5 (Raffel et al. 2020): norms by the root mean square, no scale of scores, biases by distance; an encoder,
//! and a decoder beside it, which a checkpoint may lack.

use serde_json::Value;

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_COLUMNS, MOST_LAYERS, MOST_ROWS, Read};
use crate::model::decoder::{CrossAttention, Decoder};
use crate::model::relative_biases::RelativeBiases;
use crate::model::spec::{BeyondFloat16, EncoderSpec, Layer, NameRules, NormKind, Norms, Product, Table};

const KEYS: Keys = Keys {
    hidden: "d_model",
    layers: "num_layers",
    heads: "num_heads",
    intermediate: "d_ff",
    positions: "",
    activation: (FORM, "relu"),
    norm_eps: Some(("layer_norm_epsilon", 1e-6)),
    ..BERT_KEYS
};
/// Starts of names of either.
pub const MARKS: &[&str] = &["encoder.block.", "transformer.encoder.block."];
const FORM: &str = "feed_forward_proj"; // the activation, after GATED if it is a gate's
const GATED: &str = "gated-";
const ACTIVATION: &str = "dense_act_fn"; // counts before the former
const START: &str = "decoder_start_token_id";

/// Reads a `model_type: "t5"` or `"mt5"` configuration.
///
/// `usual` stands in for a missing key of the activation, `start` for one of the decoder's first token.
///
/// # Errors
/// As [`config::read`].
pub fn read(config: ConfigFile<'_>, usual: &str, start: Option<u32>) -> Read {
    let own = config.values.get(FORM);
    let stated = own.and_then(Value::as_str).unwrap_or(usual);
    let mut gated = stated.starts_with(GATED);
    // The reference means the approximation by this one name.
    let activation = if stated == "gated-gelu" { "gelu_new" } else { stated.trim_start_matches(GATED) };
    let mut plain = config.values.clone();
    if own.is_none_or(|own| own.is_string() || own.is_null()) {
        plain.insert(FORM.into(), activation.into());
    }
    let named = config.values.get(ACTIVATION).is_some_and(|name| !name.is_null());
    let keys = Keys { activation: (if named { ACTIVATION } else { FORM }, "relu"), ..KEYS };
    let mut start = start.filter(|_| !config.values.contains_key(START));
    let mut decoder_layers = 0;
    let spec = config::read(ConfigFile { values: &plain, ..config }, &keys, |fields, spec| {
        gated = fields.flag_or("is_gated_act", gated);
        spec.head_dim = fields.optional_size("d_kv", 1..=MOST_COLUMNS).unwrap_or(64);
        let buckets = fields.optional_size("relative_attention_num_buckets", 4..=MOST_COLUMNS).unwrap_or(32);
        let (key, least) = ("relative_attention_max_distance", buckets / 2 + 1);
        let max_distance = fields.optional_size(key, 1..=MOST_COLUMNS).unwrap_or(128);
        if max_distance < least {
            fields.fault(format!("{key} is {max_distance}, expected at least {least}"));
        }
        let table = Table { name: String::new(), rows: buckets };
        spec.relative_biases = Some(RelativeBiases { table, buckets, max_distance, causal: false });
        start = start.or(fields.optional_size(START, 0..=MOST_ROWS).map(|id| id as u32));
        decoder_layers = fields.optional_size("num_decoder_layers", 0..=MOST_LAYERS).unwrap_or(spec.layers.len());
    })?;
    let common = EncoderSpec {
        score_scale: Some(1.0),
        words: Table { name: "shared.weight".into(), ..spec.words },
        positions: config::longest(&spec),
        norm: NormKind::Rms,
        gated,
        embedding_norm: None,
        beyond_float16: BeyondFloat16::ResidualStream,
        ..spec
    };
    let decoder = Decoder { stack: stack(&common, "decoder", decoder_layers), prefix: "decoder.".into(), start };
    let spec = EncoderSpec { decoder: Some(Box::new(decoder)), ..stack(&common, "encoder", common.layers.len()) };
    let alias = |side: &str| (format!("{side}.embed_tokens.weight"), "shared.weight".to_owned());
    let rules = NameRules {
        prefixes: vec!["transformer.".into()],
        // A table of old checkpoints that the reference does not read either.
        ignored: vec!["decoder.block.0.layer.1.EncDecAttention.relative_*".into()],
        aliases: ["encoder", "decoder"].map(alias).into(),
        ..NameRules::default()
    };
    Ok((spec, rules))
}

/// The name of the table of biases of a layer.
pub(super) fn biases(part: &str, number: usize) -> String {
    format!("{part}.block.{number}.layer.0.SelfAttention.relative_attention_bias.weight")
}

/// One of the two parts, with so many layers.
fn stack(common: &EncoderSpec, part: &str, layers: usize) -> EncoderSpec {
    let causal = part == "decoder";
    let biases = common.relative_biases.clone().map(|biases| RelativeBiases {
        table: Table { name: self::biases(part, 0), ..biases.table },
        causal,
        ..biases
    });
    let layer = |number: usize| {
        let name = |own: &str| format!("{part}.block.{number}.layer.{own}");
        let products =
            |parts: &[&str], own: &str| Product::plain(parts.iter().map(|part| name(&format!("{own}.{part}"))));
        let (cross, last) = ("1.EncDecAttention", usize::from(causal) + 1);
        let wide: &[&str] = if common.gated { &["wi_1", "wi_0"] } else { &["wi"] };
        let feed_forward = format!("{last}.DenseReluDense");
        Layer {
            query_key_value: products(&["q", "k", "v"], "0.SelfAttention"),
            attention_output: products(&["o"], "0.SelfAttention"),
            attention_norms: Norms::before(name("0.layer_norm")),
            cross_attention: causal.then(|| CrossAttention {
                query: products(&["q"], cross),
                key_value: products(&["k", "v"], cross),
                output: products(&["o"], cross),
                norms: Norms::before(name("1.layer_norm")),
            }),
            feed_forward_in: products(wide, &feed_forward),
            feed_forward_out: products(&["wo"], &feed_forward),
            feed_forward_norms: Norms::before(name(&format!("{last}.layer_norm"))),
            ..config::layer(number)
        }
    };
    EncoderSpec {
        causal,
        relative_biases: biases,
        final_norm: Some(format!("{part}.final_layer_norm")),
        layers: (0..layers).map(layer).collect(),
        ..common.clone()
    }
}

#[cfg(test)]
mod tests;
