//! What the two parts of the model have in common, and what differs.

use std::path::Path;

use serde_json::json;

use super::*;
use crate::Result;
use crate::dtype::DType;
use crate::model::encoder::{After, Input, build, build_stack, needed};
use crate::model::registry::read_spec;
use crate::ops::{ActivationKind, Op};

fn reading(model_type: &str, changes: Value) -> Result<EncoderSpec> {
    let mut config = json!({"d_model": 40, "d_ff": 24, "num_heads": 3, "num_layers": 2, "vocab_size": 9,
        "is_encoder_decoder": true});
    let config = config.as_object_mut().unwrap();
    config.extend(changes.as_object().unwrap().clone());
    read_spec(model_type, config, Path::new("config.json")).map(|(spec, _)| spec)
}

#[test]
fn the_feed_forward_part_is_the_stated_one() {
    let form = |model_type: &str, changes: Value| {
        let spec = reading(model_type, changes).unwrap();
        (spec.gated, spec.activation, spec.layers[1].feed_forward_in.names.len())
    };
    assert_eq!(form("t5", json!({})), (false, ActivationKind::Relu, 1));
    assert_eq!(form("mt5", json!({"feed_forward_proj": null})), (true, ActivationKind::GeluTanh, 2));
    assert_eq!(form("t5", json!({"feed_forward_proj": "gated-silu"})), (true, ActivationKind::Silu, 2));
    let written_out = json!({"feed_forward_proj": "relu", "dense_act_fn": "silu", "is_gated_act": true});
    assert_eq!(form("t5", written_out), (true, ActivationKind::Silu, 2));
    for (value, part) in [(json!("wavy-gelu"), "\"wavy-gelu\": known are"), (json!(3), "is 3, expected a string")] {
        let error = reading("t5", json!({"feed_forward_proj": value})).unwrap_err().to_string();
        assert!(error.contains(&format!("feed_forward_proj {part}")), "{error}");
    }
}

#[test]
fn heads_and_distances_have_sizes_of_their_own() {
    let spec = reading("t5", json!({})).unwrap();
    assert_eq!((spec.head_dim, spec.norm_eps, spec.score_scale), (64, 1e-6, Some(1.0)));
    let types = |dtype| {
        let built = build(&spec, After::modules(&[]), dtype).unwrap();
        built.states.iter().map(|id| built.graph.value(*id).dtype).collect::<Vec<_>>()
    };
    // The hidden state has the range of float32.
    assert!(types(DType::F16).iter().all(|dtype| *dtype == DType::F32));
    assert!(types(DType::Bf16).iter().all(|dtype| *dtype == DType::Bf16));
    assert_eq!(spec.relative_biases.unwrap().distances(), 183);
    let near = json!({"d_kv": 8, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 5});
    let near = reading("t5", near).unwrap();
    assert_eq!((near.head_dim, near.relative_biases.unwrap().distances()), (8, 9));
    for (key, value) in [("relative_attention_max_distance", 7), ("relative_attention_num_buckets", 3), ("d_kv", 0)] {
        let error = reading("t5", json!({key: value})).unwrap_err().to_string();
        assert!(error.contains(&format!("{key} is {value}, expected")), "{error}");
    }
}

fn decoder(model_type: &str, changes: Value) -> Decoder {
    *reading(model_type, changes).unwrap().decoder.unwrap()
}

#[test]
fn the_decoder_has_sizes_and_a_first_token_of_its_own() {
    let own = decoder("t5", json!({"num_decoder_layers": 5, "decoder_start_token_id": 8}));
    assert_eq!((own.stack.layers.len(), own.start, own.stack.causal), (5, Some(8), true));
    let same = reading("t5", json!({})).unwrap();
    assert!(!same.causal && same.layers.iter().all(|layer| layer.cross_attention.is_none()));
    assert_eq!(same.decoder.unwrap().stack.layers.len(), 2);
    let null = json!({"decoder_start_token_id": null});
    let starts = [("t5", json!({})), ("t5", null.clone()), ("mt5", json!({})), ("mt5", null)];
    let starts = starts.map(|(model_type, changes)| decoder(model_type, changes).start);
    assert_eq!(starts, [None, None, Some(0), None]);
    assert!(decoder("t5", json!({"num_decoder_layers": 0})).stack.layers.is_empty());
    for (key, value) in [("num_decoder_layers", json!(-1)), ("decoder_start_token_id", json!("<pad>"))] {
        let error = reading("t5", json!({key: value})).unwrap_err().to_string();
        assert!(error.contains(&format!("{key} is {value}, expected a whole number")), "{error}");
    }
}

#[test]
fn the_decoder_attends_to_its_own_tokens_and_to_the_states() {
    let decoder = decoder("t5", json!({"num_decoder_layers": 3}));
    assert_eq!(decoder.stack.relative_biases.as_ref().unwrap().distances(), 2 * 113 + 1);
    let built = build_stack(&decoder.stack, DType::F32, None).unwrap();
    assert_eq!(built.inputs, [Input::Words, Input::Offsets, Input::States, Input::StateOffsets]);
    let own = needed(&built.graph).into_iter().filter(|tensor| tensor.name.starts_with(&decoder.prefix));
    assert_eq!((own.count(), needed(&built.graph).len()), (3 * 13 + 2, 3 * 13 + 3));
    let attention = built.graph.nodes.iter().filter_map(|node| match &node.op {
        Op::Attention(op) => Some((op.causal, op.bias, node.operands[3] == node.operands[4])),
        _ => None,
    });
    assert_eq!(attention.collect::<Vec<_>>(), [(true, true, true), (false, false, false)].repeat(3));
}
