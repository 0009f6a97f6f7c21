//! Reading of configurations by each architecture, and the errors of invalid ones.

mod decoders;
mod encoders;
mod page;

use std::path::Path;

use serde_json::{Map, Value, json};

use super::ARCHITECTURES;
use crate::model::registry::{other_architecture, read_spec};
use crate::model::spec::{EncoderSpec, NameRules, Norms, Order, PositionRows, Positions, Product};
use crate::ops::ActivationKind;
use crate::ops::attention_output::FAMILIES;
use crate::{Error, Result};

pub(super) fn reading(model_type: &str, changes: Value) -> Result<(EncoderSpec, NameRules)> {
    let mut config = match model_type {
        "distilbert" => json!({
            "dim": 48, "n_layers": 2, "n_heads": 4, "hidden_dim": 96, "activation": "relu", "max_position_embeddings": 66
        }),
        "gpt2" => json!({"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 66}),
        "gpt_neox" => json!({
            "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
            "max_position_embeddings": 66
        }),
        _ => json!({
            "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
            "max_position_embeddings": 66
        }),
    };
    let config: &mut Map<String, Value> = config.as_object_mut().unwrap();
    config.extend(json!({"model_type": model_type, "vocab_size": 100}).as_object().unwrap().clone());
    config.extend(changes.as_object().unwrap().clone());
    read_spec(model_type, config, Path::new("config.json"))
}

pub(super) fn spec(model_type: &str, changes: Value) -> EncoderSpec {
    reading(model_type, changes).unwrap().0
}

/// The error for a configuration that cannot be used.
pub(super) fn fault(model_type: &str, changes: Value) -> String {
    match reading(model_type, changes.clone()) {
        Err(error @ Error::ModelFormat { .. }) => error.to_string(),
        other => panic!("{model_type} {changes}: {other:?}"),
    }
}

fn rows(spec: &EncoderSpec) -> PositionRows {
    let Positions::Learned { rows, .. } = spec.positions else { panic!() };
    rows
}

#[test]
fn roberta_and_its_kin_count_positions_after_the_padding_token() {
    for model_type in ["roberta", "xlm-roberta", "camembert"] {
        let usual = spec(model_type, json!({"type_vocab_size": 1}));
        assert_eq!(rows(&usual), PositionRows::AfterPadding { pad: 1 });
        assert_eq!((usual.positions.longest_text(), usual.token_types.unwrap().rows), (64, 1));
        let other = spec(model_type, json!({"pad_token_id": 5, "type_vocab_size": 0}));
        assert_eq!(rows(&other), PositionRows::AfterPadding { pad: 5 });
        assert_eq!((other.positions.longest_text(), other.token_types), (60, None));
    }
}

#[test]
fn a_padding_token_outside_the_tables_is_refused() {
    for (changes, part) in [
        (json!({"pad_token_id": null}), "pad_token_id is null, but positions are counted from it"),
        (json!({"pad_token_id": -1}), "pad_token_id is -1, expected a whole number from 0"),
        (json!({"pad_token_id": 1.5}), "pad_token_id is 1.5"),
        (json!({"pad_token_id": "<pad>"}), "pad_token_id is \"<pad>\""),
        (json!({"pad_token_id": 100}), "pad_token_id is 100, but vocab_size is 100"),
        (json!({"pad_token_id": 65}), "max_position_embeddings is 66, but the first token has position 66"),
        (json!({"max_position_embeddings": 2}), "max_position_embeddings is 2, but the first token has position 2"),
    ] {
        let message = fault("roberta", changes);
        assert!(message.starts_with("config.json") && message.contains(part), "{message}");
    }
    assert!(fault("mpnet", json!({"max_position_embeddings": 2})).contains("expected at least 3"));
    assert_eq!(spec("roberta", json!({"pad_token_id": 64})).positions.longest_text(), 1);
}

#[test]
fn mpnet_has_its_padding_and_buckets_whatever_the_configuration_says() {
    let odd = spec("mpnet", json!({"pad_token_id": 7, "relative_attention_num_buckets": 40, "type_vocab_size": 2}));
    assert_eq!((rows(&odd), odd.token_types), (PositionRows::AfterPadding { pad: 1 }, None));
    let biases = odd.relative_biases.unwrap();
    assert_eq!((biases.table.rows, biases.buckets, biases.distances()), (40, 32, 183));
    assert_eq!(spec("mpnet", json!({})).relative_biases.unwrap().table.rows, 32);
    let message = fault("mpnet", json!({"relative_attention_num_buckets": 31}));
    assert!(message.contains("relative_attention_num_buckets is 31, expected a whole number from 32"), "{message}");
}

#[test]
fn distilbert_has_keys_of_its_own_and_a_fixed_eps() {
    let spec = spec("distilbert", json!({"layer_norm_eps": 0.5, "type_vocab_size": 2}));
    assert_eq!((spec.norm_eps, spec.token_types, spec.heads, spec.intermediate), (1e-12, None, 4, 96));
    let message = fault("distilbert", json!({"dim": null, "n_heads": 0, "n_layers": "2", "hidden_dim": null}));
    for part in ["dim is missing", "n_heads is 0", "n_layers is \"2\"", "hidden_dim is missing"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(fault("distilbert", json!({"n_heads": 5})).contains("dim 48 is not a multiple of n_heads 5"));
}

#[test]
fn gpt2_is_causal_with_norms_before_and_has_keys_of_its_own() {
    let usual = spec("gpt2", json!({"n_inner": null}));
    let layer = &usual.layers[1];
    assert_eq!((&layer.attention_norms, layer.query_key_value.order), (&Norms::before("h.1.ln_1"), Order::ByOperand));
    assert!(usual.causal);
    assert_eq!((usual.intermediate, usual.activation, usual.norm_eps), (192, ActivationKind::GeluTanh, 1e-5));
    assert_eq!((usual.positions.longest_text(), usual.embedding_norm), (66, None));
    assert_eq!(spec("gpt2", json!({"n_inner": 50})).intermediate, 50);
    let message =
        fault("gpt2", json!({"n_embd": null, "n_head": 0, "n_layer": "2", "n_positions": null, "n_inner": -1}));
    for part in ["n_embd is missing", "n_head is 0", "n_layer is \"2\"", "n_positions is missing", "n_inner is -1"] {
        assert!(message.contains(part), "{message}");
    }
    for (key, value) in [("scale_attn_weights", false), ("scale_attn_by_inverse_layer_idx", true)] {
        let refused = reading("gpt2", json!({key: value})).unwrap_err().to_string();
        assert!(refused.contains(&format!("{key} {value}: only {} is known", !value)), "{refused}");
    }
}

#[test]
fn llama_and_its_kin_have_groups_of_heads_and_windows() {
    let usual = spec("llama", json!({"num_key_value_heads": 2, "head_dim": 10, "attention_bias": true}));
    assert_eq!((usual.heads, usual.kv_heads, usual.head_dim, usual.activation), (4, 2, 10, ActivationKind::Silu));
    let layer = &usual.layers[1];
    assert!(usual.causal && layer.attention_output.bias && !layer.feed_forward_in.bias);
    for model_type in ["llama", "gpt2", "gpt_neox"] {
        assert!(spec(model_type, json!({"is_causal": true})).causal);
        assert!(!spec(model_type, json!({"is_causal": false})).causal);
        assert!(fault(model_type, json!({"is_causal": null})).contains("is_causal is null: with it the direction"));
    }
    assert!(fault("llama", json!({"num_key_value_heads": 3})).contains("is not a multiple of num_key_value_heads 3"));
    assert!(fault("llama", json!({"head_dim": 11})).contains("11 columns of a head have rotary positions"));
    assert!(fault("llama", json!({"num_attention_heads": 5})).contains("hidden_size 48 is not a multiple"));
    let windows = |model_type, changes| spec(model_type, changes).layers.iter().map(|layer| layer.window).collect();
    for (model_type, changes, expected) in [
        ("mistral", json!({}), [4095, 4095]),
        ("mistral", json!({"sliding_window": null}), [0, 0]),
        ("mistral", json!({"sliding_window": 8}), [7, 7]),
        ("mistral", json!({"sliding_window": 8, "is_causal": false}), [8, 8]),
        ("mistral", json!({"layer_types": ["full_attention", "sliding_attention"]}), [0, 4095]),
        ("qwen2", json!({"sliding_window": 8}), [0, 0]),
        ("qwen2", json!({"sliding_window": 8, "use_sliding_window": true, "max_window_layers": 1}), [0, 7]),
        (
            "qwen2",
            json!({"use_sliding_window": true, "layer_types": ["sliding_attention", "full_attention"]}),
            [4095, 0],
        ),
    ] {
        let found: Vec<u32> = windows(model_type, changes.clone());
        assert_eq!(found, expected, "{model_type} {changes}");
    }
    let message = fault("qwen2", json!({"layer_types": ["sliding_attention", "full_attention"]}));
    assert!(message.contains("use_sliding_window or sliding_window is not set"), "{message}");
}

#[test]
fn relatives_of_llama_change_what_differs() {
    let qwen = spec("qwen3", json!({"attention_bias": true}));
    let layer = &qwen.layers[1];
    assert_eq!(qwen.head_dim, 128);
    assert_eq!(layer.head_norms, Some(["layers.1.self_attn.q_norm".into(), "layers.1.self_attn.k_norm".into()]));
    assert!(layer.attention_output.bias && !layer.feed_forward_out.bias);
    let euro = spec("eurobert", json!({"is_causal": false, "mlp_bias": true}));
    assert!(!euro.causal && euro.layers[0].feed_forward_in.bias && euro.norm_eps == 1e-5);
    let granite = spec("granite", json!({"embedding_multiplier": 12, "residual_multiplier": 0.5}));
    assert_eq!((granite.word_scale, granite.score_scale, granite.residual_scale), (12.0, Some(1.0), 0.5));
    assert!(fault("granite", json!({"attention_multiplier": 0})).contains("attention_multiplier is 0"));
}

#[test]
fn gemma_has_windows_and_rotary_positions_of_two_kinds() {
    let kinds = json!(["sliding_attention", "full_attention"]);
    for (changes, windows) in [
        (json!({"layer_types": kinds}), [4095, 0]),
        (json!({"layer_types": kinds, "sliding_window": 512, "use_bidirectional_attention": true}), [256, 0]),
        (json!({"sliding_window": 17, "use_bidirectional_attention": true}), [8, 8]),
        (json!({"sliding_window": 16, "use_bidirectional_attention": true, "is_causal": false}), [9, 9]),
        (json!({"sliding_window": 16, "sliding_window_pattern": 1}), [0, 0]),
        (json!({"sliding_window": null}), [0, 0]),
    ] {
        let found = spec("gemma3_text", changes.clone());
        assert_eq!(found.layers.iter().map(|layer| layer.window).collect::<Vec<_>>(), windows, "{changes}");
        assert_eq!(found.causal, !changes["use_bidirectional_attention"].as_bool().unwrap_or(false));
    }
    let scaled = json!({"head_dim": 4, "layer_types": kinds, "rope_scaling": {"type": "linear", "factor": 2.0}});
    let gemma = spec("gemma3_text", scaled);
    assert_eq!(gemma.layers.iter().map(|layer| layer.rotary).collect::<Vec<_>>(), [Some(1), Some(0)]);
    assert_eq!(
        (&gemma.rotary[0].frequencies[..], &gemma.rotary[1].frequencies[..]),
        (&[0.5, 5e-4][..], &[1.0, 0.01][..])
    );
    assert_eq!((gemma.score_scale, gemma.word_scale), (Some(1.0 / 16.0), 48f32.sqrt()));
    let norms = &gemma.layers[0].feed_forward_norms;
    assert_eq!(norms.after.as_deref(), Some("layers.0.post_feedforward_layernorm"));
}

#[test]
fn gemma_2_has_a_soft_cap_and_a_window_in_every_second_layer() {
    let usual = spec("gemma2", json!({"hidden_act": "gelu_pytorch_tanh", "final_logit_softcapping": 30.0}));
    assert_eq!(usual.layers.iter().map(|layer| layer.window).collect::<Vec<_>>(), [4095, 0]);
    assert_eq!((usual.score_cap, usual.score_scale, usual.head_dim), (50.0, Some(1.0 / 16.0), 256));
    assert!(usual.causal && usual.layers[1].head_norms.is_none() && usual.rotary.len() == 1);
    assert_eq!(spec("gemma2", json!({"attn_logit_softcapping": null})).score_cap, 0.0);
    let kinds = json!(["full_attention", "sliding_attention"]);
    let other = spec("gemma2", json!({"layer_types": kinds, "sliding_window": 9, "is_causal": false}));
    assert_eq!(other.layers.iter().map(|layer| layer.window).collect::<Vec<_>>(), [0, 9]);
    assert!(fault("gemma2", json!({"attn_logit_softcapping": 0})).contains("attn_logit_softcapping is 0, expected"));
    let refused = reading("gemma2", json!({"use_bidirectional_attention": true})).unwrap_err().to_string();
    assert!(refused.contains("use_bidirectional_attention"), "{refused}");
}

#[test]
fn deberta_has_the_terms_by_distance_that_its_keys_name() {
    let relative = |changes: Value| {
        let mut all = json!({"relative_attention": true, "pos_att_type": "p2c| C2P", "position_biased_input": false});
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        all
    };
    let plain = spec("deberta-v2", json!({"pos_att_type": ["p2c", "c2p"]}));
    assert_eq!((&plain.distances, &plain.layers[0].by_distance), (&None, &[None, None]));
    assert_eq!((plain.score_scale, plain.norm_eps, plain.token_types), (Some(1.0 / 6.0), 1e-7, None));
    let own = |part: &str| Some(Product::biased([format!("encoder.layer.1.attention.self.{part}_proj")]));
    let usual = spec("deberta-v2", relative(json!({})));
    assert_eq!(usual.layers[1].by_distance, [own("pos_key"), own("pos_query")]);
    assert_eq!((usual.distances.unwrap().table.rows, usual.positions), (132, Positions::None { longest: 66 }));
    let changes = json!({"share_att_key": true, "pos_att_type": ["c2p"], "position_buckets": 8,
        "max_relative_positions": -1, "norm_rel_ebd": "Layer_Norm", "position_biased_input": true});
    let shared = spec("deberta-v2", relative(changes));
    assert_eq!(shared.layers[1].by_distance, [own("key"), None]);
    let distances = shared.distances.unwrap();
    assert_eq!((distances.table.rows, distances.norm.as_deref()), (16, Some("encoder.LayerNorm")));
    assert!(matches!(shared.positions, Positions::Learned { .. }));
    for (changes, said) in [
        (json!({"conv_kernel_size": 3, "conv_act": "gelu"}), "conv_kernel_size 3: only 0 is known"),
        (json!({"embedding_size": 24}), "embedding_size 24: only 48 is known"),
        (json!({"attention_head_size": 16}), "attention_head_size 16: only 12 is known"),
    ] {
        let refused = reading("deberta-v2", changes).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
    let message = fault("deberta-v2", relative(json!({"position_buckets": 256})));
    assert!(message.contains("position_buckets is 256 with distances up to 66"), "{message}");
    assert!(fault("deberta-v2", relative(json!({"pos_att_type": 3}))).contains("pos_att_type is 3"));
}

#[test]
fn gpt_neox_turns_a_share_of_the_columns() {
    let usual = spec("gpt_neox", json!({}));
    assert!(usual.parallel && usual.causal && usual.layers[0].query_key_value.order == Order::ByHead);
    assert_eq!((usual.head_dim, usual.rotary[0].frequencies.len()), (16, 2));
    let other = spec("gpt_neox", json!({"rope_parameters": {"partial_rotary_factor": 1.0}}));
    assert_eq!(other.rotary[0].frequencies.len(), 8);
    assert!(!spec("gpt_neox", json!({"rotary_pct": 0.5, "attention_bias": false})).layers[0].attention_output.bias);
    assert!(fault("gpt_neox", json!({"rotary_pct": 2})).contains("rotary_pct is 2"));
}

#[test]
fn electra_has_embeddings_of_their_own_width() {
    let narrow = spec("electra", json!({"embedding_size": 16}));
    assert_eq!((narrow.embedding, narrow.embedding_projection.as_deref()), (16, Some("embeddings_project")));
    let equal = spec("electra", json!({"embedding_size": 48}));
    assert_eq!((equal.embedding, equal.embedding_projection), (48, None));
    assert_eq!(spec("electra", json!({})).embedding, 128);
    assert!(fault("electra", json!({"embedding_size": 0})).contains("embedding_size is 0"));
}

#[test]
fn prefixes_are_left_out() {
    for (model_type, stored, uniform) in [
        ("roberta", "roberta.embeddings.LayerNorm.weight", "embeddings.LayerNorm.weight"),
        ("camembert", "roberta.encoder.layer.0.output.dense.bias", "encoder.layer.0.output.dense.bias"),
        ("distilbert", "distilbert.transformer.layer.1.ffn.lin1.bias", "transformer.layer.1.ffn.lin1.bias"),
        ("mpnet", "mpnet.encoder.relative_attention_bias.weight", "encoder.relative_attention_bias.weight"),
        ("electra", "electra.embeddings_project.weight", "embeddings_project.weight"),
        ("gpt2", "transformer.h.0.attn.c_attn.bias", "h.0.attn.c_attn.bias"),
        ("llama", "model.layers.1.mlp.up_proj.weight", "layers.1.mlp.up_proj.weight"),
        ("gpt_neox", "gpt_neox.layers.0.attention.dense.bias", "layers.0.attention.dense.bias"),
    ] {
        let rules = reading(model_type, json!({})).unwrap().1;
        assert_eq!(rules.uniform(stored), uniform);
        assert!(!rules.ignores(uniform), "{stored}");
    }
}

#[test]
fn tables_that_are_computed_here_are_ignored() {
    for (model_type, stored) in [
        ("roberta", "roberta.pooler.dense.bias"),
        ("gpt2", "h.0.attn.bias"),
        ("gpt2", "transformer.h.11.attn.masked_bias"),
        ("llama", "model.layers.1.self_attn.rotary_emb.inv_freq"),
        ("gpt_neox", "gpt_neox.layers.0.attention.masked_bias"),
        ("longformer", "longformer.encoder.layer.0.attention.self.query_global.weight"),
    ] {
        let rules = reading(model_type, json!({})).unwrap().1;
        assert!(rules.ignores(&rules.uniform(stored)), "{stored}");
    }
}

#[test]
fn tensors_of_another_architecture_are_recognised() {
    let said = |names: &[&str], model_type| other_architecture(names.iter().copied(), model_type);
    let text = said(&["roberta.pooler.dense.bias", "lm_head.bias"], "bert").unwrap();
    assert!(text.contains("camembert or roberta or xlm-roberta") && text.contains("\"bert\""), "{text}");
    assert!(said(&["encoder.layer.0.attention.attn.q.bias"], "bert").unwrap().contains("tensors of mpnet"));
    assert!(said(&["transformer.h.0.ln_1.bias"], "distilbert").unwrap().contains("tensors of gpt2"));
    assert_eq!(said(&["roberta.pooler.dense.bias"], "camembert"), None);
    assert_eq!(said(&["encoder.layer.0.output.dense.bias"], "bert"), None);
}

#[test]
fn shaders_of_one_name_are_of_one_family() {
    let all: Vec<_> = ARCHITECTURES.iter().filter_map(|row| row.shaders).collect();
    for shaders in &all {
        assert!(FAMILIES.iter().any(|family| family.name == shaders.family), "{}", shaders.name);
        assert!(
            all.iter().all(|other| other.name != shaders.name || other.family == shaders.family),
            "{}",
            shaders.name
        );
    }
}
