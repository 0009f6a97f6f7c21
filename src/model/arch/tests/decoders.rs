//! Configurations of LLaMA's relatives.

use serde_json::json;

use super::{fault, reading, spec};
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
