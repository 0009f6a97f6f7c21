//! Configurations of LLaMA's relatives.

use serde_json::json;

use super::{fault, reading, spec};
use crate::model::convolution::ShortConvolution;
use crate::model::spec::{NormKind, Norms, Product};
use crate::ops::ActivationKind;

#[test]
fn gemma_has_the_approximation_under_another_name() {
    for changes in [json!({}), json!({"hidden_act": "gelu"}), json!({"hidden_act": "gelu_pytorch_tanh"})] {
        assert_eq!(spec("gemma", changes).activation, ActivationKind::GeluTanh);
    }
    let usual = spec("gemma", json!({"hidden_act": "silu"}));
    assert_eq!((usual.activation, usual.head_dim, usual.norm), (ActivationKind::Silu, 256, NormKind::RmsPlusOne));
    assert_eq!((usual.word_scale, usual.word_scale_rounded, usual.score_scale), (48f32.sqrt(), true, None));
    assert_eq!(usual.layers[0].feed_forward_norms, Norms::before("layers.0.post_attention_layernorm"));
    let refused = reading("gemma", json!({"use_bidirectional_attention": true})).unwrap_err().to_string();
    assert!(refused.contains("use_bidirectional_attention true: only false is known"), "{refused}");
}

#[test]
fn phi_has_one_norm_for_both_parts() {
    let usual = spec("phi", json!({"num_key_value_heads": 2}));
    assert!(usual.parallel && usual.causal && !usual.gated && usual.kv_heads == 2);
    assert_eq!(
        (usual.norm, usual.norm_eps, usual.activation),
        (NormKind::Layer { bias: true }, 1e-5, ActivationKind::GeluTanh)
    );
    let layer = &usual.layers[1];
    assert_eq!(layer.attention_norms, layer.feed_forward_norms);
    assert_eq!(layer.attention_output, Product::biased(["layers.1.self_attn.dense"]));
    assert!(layer.query_key_value.bias);
    // Half of 12 columns.
    assert_eq!(usual.rotary[0].frequencies.len(), 3);
    let third = spec("phi", json!({"rope_parameters": {"partial_rotary_factor": 0.34, "rope_theta": 100.0}}));
    assert_eq!(third.rotary[0].frequencies.len(), 2);
    assert!(fault("phi", json!({"partial_rotary_factor": 0.25})).contains("3 columns of a head have rotary positions"));
    let refused = reading("phi", json!({"qk_layernorm": true})).unwrap_err().to_string();
    assert!(refused.contains("qk_layernorm true: only false is known"), "{refused}");
}

#[test]
fn stablelm_has_its_parts_in_turn_or_side_by_side() {
    let usual = spec("stablelm", json!({"partial_rotary_factor": 0.5}));
    assert!(!usual.parallel && usual.gated && !usual.layers[0].query_key_value.bias);
    assert_eq!(usual.layers[0].feed_forward_norms, Norms::before("layers.0.post_attention_layernorm"));
    let beside = json!({"use_parallel_residual": true, "use_qkv_bias": true, "partial_rotary_factor": 0.5});
    let layer = &spec("stablelm", beside).layers[0];
    assert_eq!(layer.feed_forward_norms, Norms::before("layers.0.input_layernorm"));
    assert!(layer.query_key_value.bias && !layer.attention_output.bias);
    for (changes, said) in [
        (json!({"qk_layernorm": true}), "qk_layernorm true: only false is known"),
        (json!({"head_dim": 16}), "head_dim 16: only null is known"),
    ] {
        let refused = reading("stablelm", changes).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn starcoder2_has_biases_and_a_window_where_it_is_stated() {
    let usual = spec("starcoder2", json!({"norm_epsilon": 1e-3}));
    assert_eq!((usual.gated, usual.norm_eps, usual.layers[1].window), (false, 1e-3, 0));
    assert_eq!(usual.layers[1].feed_forward_in, Product::biased(["layers.1.mlp.c_fc"]));
    let other = spec("starcoder2", json!({"use_bias": false, "sliding_window": 16}));
    assert_eq!((other.layers[1].window, other.layers[1].attention_output.bias), (15, false));
    assert!(fault("starcoder2", json!({"sliding_window": 0})).contains("sliding_window is 0"));
}

#[test]
fn mixtures_have_an_experts_own_tensors() {
    let usual = spec("mixtral", json!({"num_local_experts": 4, "sliding_window": 8}));
    let layer = &usual.layers[1];
    let mixture = layer.mixture.as_ref().unwrap();
    assert_eq!((mixture.experts, mixture.top_k, mixture.intermediate, mixture.normalized), (4, 2, 96, true));
    assert_eq!((layer.window, usual.norm_eps), (7, 1e-5));
    let own = |part: &str| format!("layers.1.block_sparse_moe.experts.{{}}.{part}");
    assert_eq!(
        (&layer.feed_forward_in.names, &mixture.router.names),
        (&vec![own("w3"), own("w1")], &vec!["layers.1.block_sparse_moe.gate".to_owned()])
    );
    assert_eq!(spec("mixtral", json!({"num_experts": 5})).layers[0].mixture.as_ref().unwrap().experts, 5);
    let qwen = json!({"num_hidden_layers": 5, "num_experts": 6, "num_experts_per_tok": 2, "decoder_sparse_step": 2,
        "mlp_only_layers": [3], "moe_intermediate_size": 20});
    let qwen = spec("qwen3_moe", qwen);
    let mixtures: Vec<_> =
        qwen.layers.iter().map(|layer| layer.mixture.as_ref().map(|found| found.intermediate)).collect();
    assert_eq!(mixtures, [None, Some(20), None, None, None]);
    assert_eq!(
        (qwen.intermediate, qwen.head_dim, qwen.layers[1].mixture.as_ref().unwrap().normalized),
        (96, 12, false)
    );
    for model_type in ["mixtral", "qwen3_moe"] {
        let message = fault(model_type, json!({"num_experts": 4, "num_experts_per_tok": 5}));
        assert!(message.contains("num_experts_per_tok is 5, but num_local_experts is 4"), "{message}");
        assert!(fault(model_type, json!({"num_experts": 0})).contains("num_local_experts is 0"));
    }
    assert!(fault("qwen3_moe", json!({"moe_intermediate_size": 0})).contains("moe_intermediate_size is 0"));
}

#[test]
fn lfm2_has_convolutions_in_place_of_attention() {
    let usual = spec("lfm2", json!({"full_attn_idxs": [1]}));
    let [first, second] = [0, 1].map(|number| &usual.layers[number]);
    let name = |part: &str| format!("layers.0.conv.{part}");
    let parts = ["in_proj.b", "in_proj.c", "in_proj.v"].map(name);
    assert_eq!(
        (&first.query_key_value, &first.attention_output),
        (&Product::plain(parts), &Product::plain([name("out_proj")]))
    );
    assert_eq!(first.short_convolution, Some(ShortConvolution { name: name("conv"), taps: 3, bias: false }));
    assert_eq!((&second.short_convolution, second.head_norms.is_some(), usual.causal), (&None, true, true));
    // Two thirds of 96, up to the next multiple of 256.
    assert_eq!((usual.intermediate, usual.norm_eps), (256, 1e-5));
    assert_eq!(usual.final_norm.as_deref(), Some("embedding_norm"));
    let adjusted = |changes| spec("lfm2", changes).intermediate;
    assert_eq!(adjusted(json!({"block_ffn_dim_multiplier": null})), 64);
    assert_eq!(adjusted(json!({"block_ff_dim": 30, "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.3})), 32);
    assert_eq!(adjusted(json!({"block_auto_adjust_ff_dim": false, "intermediate_size": null, "block_ff_dim": 30})), 30);
    let biased = spec("lfm2", json!({"layer_types": ["full_attention", "conv"], "conv_bias": true, "conv_L_cache": 4}));
    let convolution = biased.layers[1].short_convolution.as_ref().unwrap();
    assert_eq!((convolution.taps, convolution.bias, biased.layers[1].attention_output.bias), (4, true, true));
    assert!(biased.layers[0].short_convolution.is_none() && !biased.layers[0].attention_output.bias);
    // As the reference has it where nothing is stated.
    assert!(spec("lfm2", json!({})).layers.iter().all(|layer| layer.short_convolution.is_none()));
    for (changes, said) in [
        (json!({"layer_types": ["conv"]}), "layer_types is [\"conv\"], expected 2 of [\"conv\", \"full_attention\"]"),
        (json!({"layer_types": ["conv", "mamba"]}), "layer_types is [\"conv\", \"mamba\"]"),
        (json!({"conv_L_cache": 0}), "conv_L_cache is 0"),
        (json!({"intermediate_size": null}), "intermediate_size is missing"),
        (json!({"block_multiple_of": 0}), "block_multiple_of is 0"),
    ] {
        let message = fault("lfm2", changes);
        assert!(message.contains(said), "{message}");
    }
}
