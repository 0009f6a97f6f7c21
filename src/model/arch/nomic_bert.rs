//! NomicBERT (Nussbaum et al. 2024), with transformers' keys or those of its own code on the hub; of both the former.

use serde_json::{Map, Value};

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_COLUMNS, MOST_ROWS, Read, segments};
use super::gpt2;
use super::nomic_experts::Mixtures;
use super::rope;
use super::rotary_bert::{self, OwnNames, QUERY_KEY_VALUE};
use crate::model::fields::unsupported;
use crate::model::spec::{EncoderSpec, Layer, Positions, Product};
use crate::ops::ActivationKind;

const KEYS: Keys = Keys { activation: ("hidden_act", "silu"), ..BERT_KEYS };
const HUB_KEYS: Keys = Keys { activation: KEYS.activation, ..gpt2::KEYS };
/// The hub's code rounds the columns of the feed-forward part up to a multiple.
const COLUMNS: usize = 256;

/// Whether a configuration has the keys of the hub's code.
pub(super) fn is_of_hub(config: &Map<String, Value>) -> bool {
    !config.contains_key("hidden_size") && config.contains_key("n_embd")
}

/// Reads a `model_type: "nomic_bert"` configuration.
///
/// # Errors
/// As [`config::read`]; `Unsupported` for variants of the model.
pub fn read(config: ConfigFile<'_>) -> Read {
    let hub = is_of_hub(config.values);
    let (mut longest, mut rotary, mut gate, mut biases) = (0, Vec::new(), None, [hub; 3]);
    let mut mixtures = None;
    let keys = if hub { HUB_KEYS } else { KEYS };
    let mut spec = config::read(config, &keys, |fields, spec| {
        segments(fields, spec);
        rotary_bert::columns(fields, spec);
        longest = config::positions(fields, "n_positions").unwrap_or(spec.positions.longest_text());
        let trained = fields.optional_size("max_trained_positions", 1..=MOST_ROWS).unwrap_or(2048);
        // The length of a longer text would change the base.
        longest = if fields.is_set("rotary_scaling_factor") { longest.min(trained) } else { longest };
        let base = if hub { "rotary_emb_base" } else { "rope_theta" };
        rotary.push(rope::read(fields, spec.head_dim, (base, 1000.0)));
        gate = fields.text("activation_function");
        mixtures = Mixtures::read(fields);
        spec.gated = !hub || gate != Some("gelu");
        if hub && spec.gated {
            let inner = fields.optional_size("n_inner", 1..=MOST_COLUMNS).unwrap_or(8 * spec.hidden / 3);
            spec.intermediate = inner.next_multiple_of(COLUMNS);
        }
        if hub {
            let multiple = fields.optional_size("pad_vocab_size_multiple", 1..=MOST_ROWS).unwrap_or(1);
            spec.words.rows = spec.words.rows.next_multiple_of(multiple);
        }
        biases = ["qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"].map(|key| fields.flag_or(key, hub));
    })?;
    spec.activation = match gate {
        _ if !hub => spec.activation,
        Some("swiglu") => ActivationKind::Silu,
        Some("geglu") => ActivationKind::GeluErf,
        Some("glu") => ActivationKind::Sigmoid,
        Some("gelu") => ActivationKind::GeluErf,
        other => {
            let what = format_args!("activation_function {:?}", other.unwrap_or("gelu_new"));
            return Err(unsupported(config.path, what, "known are swiglu, geglu, glu, gelu"));
        }
    };
    if spec.gated && mixtures.is_some() {
        let reason = "experts are known with activation_function \"gelu\" under the hub's keys, n_embd and others";
        return Err(unsupported(config.path, format_args!("num_experts {}", config.values["num_experts"]), reason));
    }
    let [attention, inner, outer] = biases;
    let spec = EncoderSpec { positions: Positions::None { longest }, rotary, ..spec };
    let (gated, intermediate) = (spec.gated, spec.intermediate);
    let spec = spec.with_layers(|number| {
        let mut layer = rotary_bert::layer(number);
        // What is gated, and the gate.
        layer.feed_forward_in.names.truncate(if gated { 2 } else { 1 });
        let layer = Layer {
            query_key_value: Product { bias: attention, ..layer.query_key_value },
            attention_output: Product { bias: attention, ..layer.attention_output },
            feed_forward_in: Product { bias: inner, ..layer.feed_forward_in },
            feed_forward_out: Product { bias: outer, ..layer.feed_forward_out },
            ..layer
        };
        match &mixtures {
            Some(mixtures) => mixtures.layer(number, intermediate, layer),
            None => layer,
        }
    });
    let names = OwnNames {
        prefixes: &["nomic_bert.", "bert."],
        starts: &[("encoder.layers.", "layers."), ("emb_ln.", "embeddings.LayerNorm.")],
        parts: &[
            ("attn.out_proj", "self_attn.o_proj"),
            ("fc11", "up_proj"),
            ("fc12", "gate_proj"),
            ("fc1", "up_proj"),
            ("fc2", "down_proj"),
            ("norm1", "post_attention_layernorm"),
            ("norm2", "post_mlp_layernorm"),
        ],
        stacked: &[("attn.Wqkv", QUERY_KEY_VALUE)],
    };
    let mut rules = names.rules();
    rules.endings.extend(Mixtures::endings());
    Ok((spec, rules))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::model::registry::read_spec;

    fn reading(changes: Value) -> Read {
        let mut config = json!({"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 66, "vocab_size": 100,
            "activation_function": "swiglu", "rotary_emb_fraction": 1.0, "rotary_emb_scale_base": null});
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        read_spec("nomic_bert", config.as_object().unwrap(), Path::new("config.json"))
    }

    #[test]
    fn the_hubs_keys_have_the_defaults_of_its_code() {
        let (spec, rules) = reading(json!({"pad_vocab_size_multiple": 64, "mlp_fc2_bias": false})).unwrap();
        assert_eq!((spec.intermediate, spec.words.rows, spec.norm_eps), (256, 128, 1e-5));
        let layer = &spec.layers[1];
        assert!(layer.query_key_value.bias && layer.feed_forward_in.bias && !layer.feed_forward_out.bias);
        let stored = rules.uniform("encoder.layers.1.attn.Wqkv.weight");
        let part = |part: &str| format!("layers.1.self_attn.{part}_proj.weight");
        assert_eq!(rules.blocks(stored), ["q", "k", "v"].map(part));
    }

    #[test]
    fn transformers_keys_count_before_the_hubs() {
        let sizes = json!({"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "head_dim": 8,
            "intermediate_size": 50, "max_position_embeddings": 20, "n_inner": 70, "num_experts": 6});
        let spec = reading(sizes).unwrap().0;
        assert_eq!((spec.hidden, spec.layers.len(), spec.head_dim, spec.intermediate), (24, 1, 8, 50));
        assert_eq!((spec.norm_eps, spec.positions.longest_text()), (1e-12, 20));
        assert!(!spec.layers[0].query_key_value.bias);
        let scaled = reading(json!({"max_trained_positions": 30, "rotary_scaling_factor": 2})).unwrap().0;
        assert_eq!(scaled.positions.longest_text(), 30);
    }

    #[test]
    fn variants_are_refused_by_name() {
        let refused = json!({"prenorm": true, "causal": true, "rotary_emb_fraction": 0.5,
            "rotary_emb_scale_base": 512, "rotary_emb_interleaved": true, "activation_function": "gelu_new"});
        for (key, value) in refused.as_object().unwrap() {
            let error = reading(json!({key: value})).unwrap_err();
            assert!(
                matches!(error, crate::Error::Unsupported { .. }) && error.to_string().contains(key.as_str()),
                "{error}"
            );
        }
        assert!(reading(json!({"num_experts": 0, "rotary_emb_fraction": 1})).is_ok());
        assert!(
            reading(json!({"n_head": 16})).unwrap_err().to_string().contains("even number of columns, and theirs is 3")
        );
    }
}
