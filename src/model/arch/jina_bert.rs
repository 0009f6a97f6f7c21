//! Jina v2 (Günther et al. 2023): BERT with ALiBi in place of a table of positions and a gated feed-forward part.
//!
//! Its `model_type` is that of BERT; `position_embedding_type` distinguishes them.

use serde_json::{Map, Value};

use super::config::{self, BERT_KEYS, ConfigFile, Read, name_rules, segments};
use crate::model::fields::unsupported;
use crate::model::relative_biases::slopes;
use crate::model::spec::{EncoderSpec, Layer, Norms, Order, Product};
use crate::ops::ActivationKind;

/// Whether a configuration is one of this form.
pub(super) fn is(config: &Map<String, Value>) -> bool {
    config.get("position_embedding_type").and_then(Value::as_str) == Some("alibi")
}

/// Reads a configuration with ALiBi.
///
/// # Errors
/// As [`config::read`]; `Unsupported` for variants of the model.
pub(super) fn read(config: ConfigFile<'_>) -> Read {
    let kind = config.values.get("feed_forward_type").and_then(Value::as_str);
    let activation = match kind {
        Some("geglu") => ActivationKind::GeluErf,
        Some("reglu") => ActivationKind::Relu,
        other => {
            let what = format_args!("feed_forward_type {:?} with ALiBi", other.unwrap_or("original"));
            return Err(unsupported(config.path, what, "known are geglu, reglu"));
        }
    };
    let spec = config::read(config, &BERT_KEYS, segments)?;
    let spec =
        EncoderSpec { positions: config::longest(&spec), slopes: slopes(spec.heads), activation, gated: true, ..spec };
    let spec = spec.with_layers(|number| {
        let name = |part: &str| format!("encoder.layer.{number}.mlp.{part}");
        Layer {
            feed_forward_in: Product { order: Order::GateFirst, ..Product::plain([name("gated_layers")]) },
            feed_forward_out: Product::biased([name("wo")]),
            feed_forward_norms: Norms::sum(name("layernorm")),
            ..config::layer(number)
        }
    });
    Ok((spec, name_rules("bert.")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::model::registry::read_spec;
    use crate::model::spec::Positions;

    fn reading(feed_forward: Value) -> Read {
        let config = json!({"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 100,
            "intermediate_size": 96, "max_position_embeddings": 64, "position_embedding_type": "alibi",
            "feed_forward_type": feed_forward});
        read_spec("bert", config.as_object().unwrap(), Path::new("config.json"))
    }

    #[test]
    fn alibi_tells_it_from_bert() {
        let (spec, _) = reading(json!("reglu")).unwrap();
        assert_eq!((spec.slopes, spec.activation), (vec![0.25, 0.0625, 1.0 / 64.0, 1.0 / 256.0], ActivationKind::Relu));
        assert_eq!((spec.positions, spec.gated), (Positions::None { longest: 64 }, true));
        assert_eq!(spec.layers[0].feed_forward_in.names, ["encoder.layer.0.mlp.gated_layers"]);
        for kind in [json!("original"), Value::Null] {
            let error = reading(kind).unwrap_err().to_string();
            assert!(error.contains("feed_forward_type \"original\" with ALiBi"), "{error}");
        }
    }
}
