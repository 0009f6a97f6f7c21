//! The encoders of T5 and mT5 (Raffel et al. 2020): norms by the root mean square, no scale of scores, biases by distance.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::{self, Keys, MOST_COLUMNS};
use crate::Result;
use crate::model::relative_biases::RelativeBiases;
use crate::model::spec::{EncoderSpec, Layer, NameRules, NormKind, Norms, Product, Table};

const KEYS: Keys = Keys {
    hidden: "d_model",
    layers: "num_layers",
    heads: "num_heads",
    intermediate: "d_ff",
    expansion: None,
    positions: "",
    activation: (FORM, "relu"),
    norm_eps: Some(("layer_norm_epsilon", 1e-6)),
    // Of the decoder, or of a part whose form another key states.
    unused: &[
        "dense_act_fn",
        "is_gated_act",
        "n_positions",
        "num_decoder_layers",
        "output_past",
        "scale_decoder_outputs",
    ],
};
/// Starts of names of either.
pub const MARKS: &[&str] = &["encoder.block.", "transformer.encoder.block."];
const FORM: &str = "feed_forward_proj"; // the activation, after GATED if it is a gate's
const GATED: &str = "gated-";

/// Reads a `model_type: "t5"` configuration.
///
/// # Errors
/// As [`config::read`].
pub fn t5(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    read(config, path, "relu")
}

/// The same for `model_type: "mt5"`.
///
/// # Errors
/// As [`config::read`].
pub fn mt5(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    read(config, path, "gated-gelu")
}

/// `usual` stands in for a missing key of the activation.
fn read(config: &Map<String, Value>, path: &Path, usual: &str) -> Result<(EncoderSpec, NameRules)> {
    let own = config.get(FORM);
    let stated = own.and_then(Value::as_str).unwrap_or(usual);
    let gated = stated.starts_with(GATED);
    // The reference means the approximation by this one name.
    let activation = if stated == "gated-gelu" { "gelu_new" } else { stated.trim_start_matches(GATED) };
    let mut plain = config.clone();
    plain.remove("is_encoder_decoder"); // Only the encoder is loaded.
    if own.is_none_or(|own| own.is_string() || own.is_null()) {
        plain.insert(FORM.into(), activation.into());
    }
    let spec = config::read(&plain, path, &KEYS, |fields, spec| {
        spec.head_dim = fields.optional_size("d_kv", 1..=MOST_COLUMNS).unwrap_or(64);
        let buckets = fields.optional_size("relative_attention_num_buckets", 4..=MOST_COLUMNS).unwrap_or(32);
        let (key, least) = ("relative_attention_max_distance", buckets / 4 + 1);
        let max_distance = fields.optional_size(key, 1..=MOST_COLUMNS).unwrap_or(128);
        if max_distance < least {
            fields.fault(format!("{key} is {max_distance}, expected at least {least}"));
        }
        let name = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight".into();
        let table = Table { name, rows: buckets };
        spec.relative_biases = Some(RelativeBiases { table, buckets, max_distance });
    })?;
    let spec = EncoderSpec {
        score_scale: Some(1.0),
        words: Table { name: "shared.weight".into(), ..spec.words },
        positions: config::longest(&spec),
        norm: NormKind::Rms,
        gated,
        embedding_norm: None,
        beyond_float16: true,
        final_norm: Some("encoder.final_layer_norm".into()),
        ..spec
    };
    let spec = spec.with_layers(|number| {
        let name = |part: &str| format!("encoder.block.{number}.layer.{part}");
        let wide: &[&str] = if gated { &["wi_1", "wi_0"] } else { &["wi"] };
        Layer {
            query_key_value: Product::plain(["q", "k", "v"].map(|part| name(&format!("0.SelfAttention.{part}")))),
            attention_output: Product::plain([name("0.SelfAttention.o")]),
            attention_norms: Norms::before(name("0.layer_norm")),
            feed_forward_in: Product::plain(wide.iter().map(|part| name(&format!("1.DenseReluDense.{part}")))),
            feed_forward_out: Product::plain([name("1.DenseReluDense.wo")]),
            feed_forward_norms: Norms::before(name("1.layer_norm")),
            ..config::layer(number)
        }
    });
    let rules = NameRules {
        prefixes: vec!["transformer.".into()],
        ignored: ["decoder.*", "lm_head.*", "class*", "qa_outputs.*"].map(str::to_owned).into(),
        aliases: vec![("encoder.embed_tokens.weight".into(), "shared.weight".into())],
        ..NameRules::default()
    };
    Ok((spec, rules))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ReadSpec;
    use super::*;
    use crate::dtype::DType;
    use crate::model::encoder::build;
    use crate::ops::ActivationKind;

    fn reading(read: ReadSpec, changes: Value) -> Result<EncoderSpec> {
        let mut config = json!({"d_model": 40, "d_ff": 24, "num_heads": 3, "num_layers": 2, "vocab_size": 9,
            "is_encoder_decoder": true});
        let config = config.as_object_mut().unwrap();
        config.extend(changes.as_object().unwrap().clone());
        read(config, Path::new("config.json")).map(|(spec, _)| spec)
    }

    #[test]
    fn the_feed_forward_part_is_the_stated_one() {
        let form = |read: ReadSpec, changes: Value| {
            let spec = reading(read, changes).unwrap();
            (spec.gated, spec.activation, spec.layers[1].feed_forward_in.names.len())
        };
        assert_eq!(form(t5, json!({})), (false, ActivationKind::Relu, 1));
        assert_eq!(form(mt5, json!({"feed_forward_proj": null})), (true, ActivationKind::GeluTanh, 2));
        assert_eq!(form(t5, json!({"feed_forward_proj": "gated-silu"})), (true, ActivationKind::Silu, 2));
        for (value, part) in [(json!("wavy-gelu"), "\"wavy-gelu\": known are"), (json!(3), "is 3, expected a string")] {
            let error = reading(t5, json!({"feed_forward_proj": value})).unwrap_err().to_string();
            assert!(error.contains(&format!("feed_forward_proj {part}")), "{error}");
        }
    }

    #[test]
    fn heads_and_distances_have_sizes_of_their_own() {
        let spec = reading(t5, json!({})).unwrap();
        assert_eq!((spec.head_dim, spec.norm_eps, spec.score_scale), (64, 1e-6, Some(1.0)));
        let holds = |dtype| build(&spec, &[], dtype).unwrap().graph.values.iter().any(|value| value.dtype == dtype);
        assert!(!holds(DType::F16) && holds(DType::Bf16));
        assert_eq!(spec.relative_biases.unwrap().distances(), 183);
        let near = json!({"d_kv": 8, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 5});
        let near = reading(t5, near).unwrap();
        assert_eq!((near.head_dim, near.relative_biases.unwrap().distances()), (8, 9));
        for (key, value) in [("relative_attention_max_distance", 7), ("relative_attention_num_buckets", 3), ("d_kv", 0)]
        {
            let error = reading(t5, json!({key: value})).unwrap_err().to_string();
            assert!(error.contains(&format!("{key} is {value}, expected")), "{error}");
        }
        assert!(reading(t5, json!({"is_decoder": true})).is_err());
    }
}
