//! BERT (Devlin et al. 2018): post-norm, learned positions, segment embeddings.

use std::path::Path;

use serde_json::{Map, Value};

use crate::model::fields::Fields;
use crate::model::spec::{EncoderSpec, LayerNames, NameRules, NormPlace, Positions, Table};
use crate::ops::ActivationKind;
use crate::{Error, Result};

// Far above any model that exists, and so low that no product of sizes overflows.
const MOST_COLUMNS: usize = 1 << 20;
const MOST_LAYERS: usize = 10_000;
const MOST_ROWS: usize = 1 << 28;

/// Reads a `model_type: "bert"` configuration.
///
/// # Errors
/// `ModelFormat` naming the values that are missing or absurd; `Unsupported` for variants with another meaning.
pub fn read(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    let mut fields = Fields::new(config, path);
    let hidden = fields.size("hidden_size", 1..=MOST_COLUMNS);
    let layers = fields.size("num_hidden_layers", 1..=MOST_LAYERS);
    let heads = fields.size("num_attention_heads", 1..=MOST_COLUMNS);
    let intermediate = fields.size("intermediate_size", 1..=MOST_COLUMNS);
    let vocabulary = fields.size("vocab_size", 1..=MOST_ROWS);
    let positions = fields.size("max_position_embeddings", 1..=MOST_ROWS);
    let types = fields.optional_size("type_vocab_size", 0..=MOST_ROWS).unwrap_or(2);
    let norm_eps = fields.number_or("layer_norm_eps", 1e-12, 0.0..=1.0) as f32;
    let activation_name = fields.text("hidden_act").unwrap_or("gelu");
    let position_kind = fields.text("position_embedding_type").unwrap_or("absolute");
    if !hidden.is_multiple_of(heads) {
        fields.fault(format!("hidden_size {hidden} is not a multiple of num_attention_heads {heads}"));
    }
    let other_meaning =
        ["is_decoder", "is_encoder_decoder", "add_cross_attention", "pruned_heads", "quantization_config"]
            .into_iter()
            .find(|key| fields.is_set(key));
    fields.done()?;

    let unsupported = |what: String, reason: &str| {
        let what = format!("{}: {what}", path.display());
        Error::Unsupported { what, reason: reason.into() }
    };
    if let Some(key) = other_meaning {
        return Err(unsupported(key.into(), "only the plain encoder is known"));
    }
    if position_kind != "absolute" {
        let what = format!("position_embedding_type {position_kind:?}");
        return Err(unsupported(what, "only \"absolute\" is known"));
    }
    let activation = ActivationKind::from_config_name(activation_name).ok_or_else(|| {
        let known = "known are gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu, silu, swish, tanh, sigmoid, linear";
        unsupported(format!("hidden_act {activation_name:?}"), known)
    })?;

    let table = |name: &str, rows| Table { name: format!("embeddings.{name}_embeddings.weight"), rows };
    let spec = EncoderSpec {
        architecture: "bert".into(),
        hidden,
        layers,
        heads,
        kv_heads: heads,
        head_dim: hidden / heads,
        intermediate,
        activation,
        norm_eps,
        norm_place: NormPlace::Post,
        words: table("word", vocabulary),
        token_types: (types > 0).then(|| table("token_type", types)),
        positions: Positions::Learned { table: table("position", positions), first: 0 },
        embedding_norm: "embeddings.LayerNorm".into(),
        names: layer_names(),
        longest_text: positions,
    };
    Ok((spec, name_rules()))
}

fn layer_names() -> LayerNames {
    let name = |part: &str| format!("encoder.layer.{{}}.{part}");
    LayerNames {
        query: name("attention.self.query"),
        key: name("attention.self.key"),
        value: name("attention.self.value"),
        attention_output: name("attention.output.dense"),
        attention_norm: name("attention.output.LayerNorm"),
        feed_forward_in: name("intermediate.dense"),
        feed_forward_out: name("output.dense"),
        feed_forward_norm: name("output.LayerNorm"),
    }
}

/// Checkpoints of `BertFor...` classes carry a prefix and a head; the oldest say gamma and beta.
fn name_rules() -> NameRules {
    let ending = |old: &str, new: &str| (format!("LayerNorm.{old}"), format!("LayerNorm.{new}"));
    let ignored =
        ["embeddings.position_ids", "embeddings.token_type_ids", "pooler.*", "cls.*", "classifier.*", "qa_outputs.*"];
    NameRules {
        prefixes: vec!["bert.".into()],
        endings: vec![ending("gamma", "weight"), ending("beta", "bias")],
        ignored: ignored.map(str::to_owned).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(changes: Value) -> Map<String, Value> {
        let mut config = json!({
            "model_type": "bert", "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 64
        });
        let values = config.as_object_mut().unwrap();
        values.extend(changes.as_object().unwrap().clone());
        values.clone()
    }

    fn reading(changes: Value) -> Result<(EncoderSpec, NameRules)> {
        read(&config(changes), Path::new("config.json"))
    }

    #[test]
    fn optional_values_have_the_reference_defaults() {
        let (spec, _) = reading(json!({})).unwrap();
        assert_eq!((spec.activation, spec.norm_eps, spec.head_dim), (ActivationKind::GeluErf, 1e-12, 12));
        assert_eq!(spec.token_types.map(|table| table.rows), Some(2));
        assert_eq!(spec.longest_text, 64);
        assert_eq!(
            spec.positions,
            Positions::Learned {
                table: Table { name: "embeddings.position_embeddings.weight".into(), rows: 64 },
                first: 0
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
        let error = read(&Map::new(), Path::new("config.json")).unwrap_err();
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
            json!({"is_decoder": true}),
            json!({"add_cross_attention": true}),
            json!({"quantization_config": {"quant_method": "bitsandbytes"}}),
            json!({"pruned_heads": {"0": [1]}}),
        ] {
            assert!(matches!(reading(changes.clone()), Err(Error::Unsupported { .. })), "{changes}");
        }
        for harmless in
            [json!({"is_decoder": false}), json!({"pruned_heads": {}}), json!({"quantization_config": null})]
        {
            assert!(reading(harmless).is_ok());
        }
    }

    #[test]
    fn names_become_uniform() {
        let rules = name_rules();
        let uniform = |name| rules.uniform(name);
        assert_eq!(uniform("bert.embeddings.LayerNorm.gamma").as_deref(), Some("embeddings.LayerNorm.weight"));
        assert_eq!(
            uniform("encoder.layer.3.output.LayerNorm.beta").as_deref(),
            Some("encoder.layer.3.output.LayerNorm.bias")
        );
        assert_eq!(uniform("encoder.layer.3.output.dense.bias").as_deref(), Some("encoder.layer.3.output.dense.bias"));
        for unused in
            ["bert.embeddings.position_ids", "pooler.dense.weight", "cls.predictions.transform.LayerNorm.gamma"]
        {
            assert_eq!(uniform(unused), None);
        }
    }
}
