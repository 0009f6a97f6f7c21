//! Configurations of BERT's and T5's relatives.

use serde_json::{Value, json};

use super::{fault, reading, spec};
use crate::model::spec::{BeyondFloat16, FeedForward, NormKind, Norms, Order, Positions, Product, WordProjection};

#[test]
fn ernie_adds_the_first_task_where_it_has_tasks() {
    assert_eq!(spec("ernie", json!({})).task_types, None);
    let tasks = spec("ernie", json!({"use_task_id": true, "task_type_vocab_size": 16})).task_types.unwrap();
    assert_eq!((tasks.name.as_str(), tasks.rows), ("embeddings.task_type_embeddings.weight", 16));
    assert!(
        fault("ernie", json!({"use_task_id": true, "task_type_vocab_size": 0})).contains("task_type_vocab_size is 0")
    );
}

#[test]
fn umt5_has_biases_by_distance_in_each_layer() {
    let sizes = json!({"d_model": 48, "num_layers": 2, "num_heads": 4, "d_ff": 96, "num_decoder_layers": 3});
    let usual = spec("umt5", sizes);
    let name = |part: &str, number: usize| {
        Some(format!("{part}.block.{number}.layer.0.SelfAttention.relative_attention_bias.weight"))
    };
    assert!(usual.gated && usual.relative_biases.is_some());
    assert_eq!(usual.layers[1].relative_biases, name("encoder", 1));
    let decoder = usual.decoder.unwrap();
    assert_eq!((decoder.start, &decoder.stack.layers[2].relative_biases), (Some(0), &name("decoder", 2)));
}

#[test]
fn xmod_has_a_narrow_part_for_the_language() {
    let german = |changes: Value| {
        let mut all = json!({"languages": ["en_XX", "de_DE"], "default_language": "de_DE"});
        all.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        all
    };
    let (usual, rules) = reading("xmod", german(json!({}))).unwrap();
    let (layer, norm) = (&usual.layers[1], "encoder.layer.1.output.LayerNorm");
    let part = layer.bottleneck.as_ref().unwrap();
    assert_eq!((part.columns, &part.norms, &layer.feed_forward_norms), (24, &Norms::sum(norm), &Norms::sum(norm)));
    assert_eq!(part.down, Product::biased(["encoder.layer.1.output.adapter_modules.de_DE.dense1"]));
    assert!(usual.final_norm.is_none() && rules.ignores("encoder.layer.1.output.adapter_modules.en_XX.dense1.bias"));
    let before = json!({"pre_norm": true, "ln_before_adapter": false, "adapter_layer_norm": true});
    let before = spec("xmod", german(before));
    let layer = &before.layers[1];
    assert_eq!(layer.attention_norms, Norms::before("encoder.layer.1.attention.output.LayerNorm"));
    assert_eq!(layer.feed_forward_norms, Norms::before(norm));
    let own = Norms::before("encoder.layer.1.output.adapter_layer_norm");
    assert_eq!(
        (&layer.bottleneck.as_ref().unwrap().norms, before.final_norm.as_deref()),
        (&own, Some("encoder.LayerNorm"))
    );
    for (changes, said) in [
        (
            json!({"default_language": null}),
            "default_language is missing; name the language of the texts, one of en_XX, de_DE",
        ),
        (json!({"default_language": "fr_XX"}), "default_language is \"fr_XX\"; languages are en_XX, de_DE"),
        (json!({"adapter_reduction_factor": 49}), "adapter_reduction_factor is 49, at most hidden_size 48"),
    ] {
        let message = fault("xmod", german(changes));
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn deberta_has_a_joint_product_and_no_biases_of_keys() {
    let plain = spec("deberta", json!({"pos_att_type": "c2p|p2c"}));
    assert_eq!((&plain.distances, plain.score_scale), (&None, Some(1.0 / 6.0)));
    let relative = json!({"relative_attention": true, "pos_att_type": "c2p|p2c", "max_relative_positions": 9,
        "position_biased_input": false});
    let usual = spec("deberta", relative);
    let layer = &usual.layers[1];
    let name = |part: &str| format!("encoder.layer.1.attention.self.{part}");
    assert_eq!(layer.query_key_value.biases, [Some(name("q_bias")), None, Some(name("v_bias"))]);
    assert_eq!(
        (layer.query_key_value.order, &layer.query_key_value.names[..]),
        (Order::ByHead, &[name("in_proj")][..])
    );
    assert_eq!(
        layer.by_distance,
        [Some(Product::plain([name("pos_proj")])), Some(Product::biased([name("pos_q_proj")]))]
    );
    assert_eq!((usual.distances.unwrap().table.rows, usual.positions), (18, Positions::None { longest: 66 }));
    for (changes, said) in [
        (json!({"talking_head": true}), "talking_head true: only false is known"),
        (json!({"embedding_size": 24}), "embedding_size 24: only 48 is known"),
    ] {
        let refused = reading("deberta", changes).unwrap_err().to_string();
        assert!(refused.contains(said), "{refused}");
    }
}

#[test]
fn squeezebert_has_products_of_groups() {
    let usual = spec("squeezebert", json!({}));
    let layer = &usual.layers[1];
    let orders = [&layer.query_key_value, &layer.attention_output, &layer.feed_forward_in, &layer.feed_forward_out];
    assert_eq!(orders.map(|product| product.order), [4, 1, 4, 4].map(Order::Grouped));
    assert_eq!(layer.feed_forward_norms, Norms::sum("encoder.layers.1.output.layernorm"));
    for (changes, said) in [
        (json!({"intermediate_groups": 5}), "intermediate_groups is 5, which does not divide 48 columns"),
        (json!({"q_groups": 2}), "q_groups is 2, k_groups 4 and v_groups 4; only equal ones are known"),
        (json!({"embedding_size": 24}), "embedding_size is 24, expected 48"),
    ] {
        let message = fault("squeezebert", changes);
        assert!(message.contains(said), "{message}");
    }
    let refused = reading("squeezebert", json!({"layer_norm_eps": 1e-5})).unwrap_err().to_string();
    assert!(refused.contains("layer_norm_eps 0.00001: only 1e-12 is known"), "{refused}");
}

#[test]
fn mobilebert_has_narrow_layers_and_several_feed_forward_parts() {
    let (usual, rules) = reading("mobilebert", json!({"intra_bottleneck_size": 24})).unwrap();
    let (layer, name) = (&usual.layers[1], |part: &str| format!("encoder.layer.1.{part}"));
    assert_eq!((usual.norm, usual.beyond_float16, usual.head_dim), (NormKind::Affine, BeyondFloat16::Anywhere, 6));
    let words = WordProjection { name: "embeddings.embedding_transformation".into(), neighbours: true };
    assert_eq!((usual.embedding, &usual.word_projection), (128, &Some(words)));
    let last = FeedForward {
        input: Product::biased([name("ffn.2.intermediate.dense")]),
        output: Product::biased([name("ffn.2.output.dense")]),
        norms: Norms::sum(name("ffn.2.output.LayerNorm")),
    };
    assert_eq!((layer.first_feed_forwards.len(), layer.first_feed_forwards.last()), (3, Some(&last)));
    let narrow = layer.narrow.as_ref().unwrap();
    assert_eq!((narrow.columns, narrow.whole_values), (24, true));
    assert_eq!(narrow.input.norm, name("bottleneck.input.LayerNorm"));
    assert_eq!(narrow.attended.as_ref().unwrap().product, Product::biased([name("bottleneck.attention.dense")]));
    assert!(!rules.ignores("embeddings.embedding_transformation.weight"));

    let same = json!({"use_bottleneck_attention": true, "intra_bottleneck_size": 24, "normalization_type": "layer_norm",
        "trigram_input": false, "embedding_size": 48, "num_feedforward_networks": 1});
    let (same, rules) = reading("mobilebert", same).unwrap();
    let (layer, narrow) = (&same.layers[1], same.layers[1].narrow.as_ref().unwrap());
    assert!(narrow.attended.is_none() && !narrow.whole_values && layer.first_feed_forwards.is_empty());
    assert_eq!((same.norm, same.beyond_float16), (NormKind::Layer { bias: true }, BeyondFloat16::Nowhere));
    assert_eq!(same.usual_eps.last().unwrap(), "embeddings.LayerNorm");
    assert!(same.usual_eps.contains(&name("output.LayerNorm")) && same.word_projection.is_none());
    for unread in ["embeddings.embedding_transformation.bias", "encoder.layer.1.bottleneck.attention.dense.weight"] {
        assert!(rules.ignores(unread), "{unread}");
    }
    let whole = spec("mobilebert", json!({"use_bottleneck": false, "intra_bottleneck_size": 7}));
    assert_eq!((whole.head_dim, &whole.layers[0].narrow), (12, &None));

    for (changes, said) in [
        (json!({"intra_bottleneck_size": 25}), "intra_bottleneck_size 25 is not a multiple of num_attention_heads 4"),
        (
            json!({"normalization_type": "batch_norm"}),
            "normalization_type is \"batch_norm\"; known are no_norm, layer_norm",
        ),
        (
            json!({"key_query_shared_bottleneck": false}),
            "use_bottleneck_attention and key_query_shared_bottleneck are both false",
        ),
        (json!({"true_hidden_size": 48, "intra_bottleneck_size": 24}), "true_hidden_size is 48, expected 24"),
        (json!({"num_feedforward_networks": 0}), "num_feedforward_networks is 0"),
        (json!({"num_feedforward_networks": 5001}), "num_feedforward_networks is 5001"),
        (json!({"trigram_input": "yes"}), "trigram_input is \"yes\""),
    ] {
        let message = fault("mobilebert", changes);
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn roformer_turns_neighbouring_columns() {
    let usual = spec("roformer", json!({}));
    let layer = &usual.layers[1];
    assert_eq!((layer.query_key_value.order, layer.attention_output.order), (Order::Neighbours, Order::OfNeighbours));
    assert_eq!((layer.rotary, usual.rotary[0].values, usual.rotary[0].divisors.len()), (Some(0), false, 6));
    assert_eq!((usual.positions.longest_text(), usual.embedding_projection), (66, None));
    let mut other = spec("roformer", json!({"rotary_value": true, "embedding_size": 20, "is_decoder": true}));
    assert_eq!(other.embedding_projection.as_deref(), Some("embeddings_project"));
    assert!(other.rotary[0].values && other.causal && other.embedding == 20);
    other.adapt_to(|name| name == "encoder.embed_positions.weight");
    assert!(other.rotary[0].stored.is_some());
    other.adapt_to(|_| false);
    assert_eq!(other.rotary[0].stored, None);
    let message = fault("roformer", json!({"num_attention_heads": 16}));
    assert!(message.contains("an even number of columns, and theirs is 3"), "{message}");
    let refused = reading("roformer", json!({"add_cross_attention": true})).unwrap_err().to_string();
    assert!(refused.contains("add_cross_attention true: only false is known"), "{refused}");
}

#[test]
fn convbert_has_a_convolution_beside_half_as_wide_attention() {
    let usual = spec("convbert", json!({"embedding_size": 24}));
    assert_eq!((usual.heads, usual.kv_heads, usual.head_dim), (2, 2, 12));
    assert_eq!((usual.embedding, usual.embedding_projection.as_deref()), (24, Some("embeddings_project")));
    let layer = &usual.layers[1];
    let part = layer.span_convolution.as_ref().unwrap();
    assert_eq!((part.taps, part.keys.order, part.output.bias), (9, Order::Grouped(1), false));
    let halves = [layer.attention_output.order, part.output.order];
    assert_eq!(halves, [0, 24].map(|first| Order::Columns { first, of: 48 }));
    assert_eq!(part.output.names, layer.attention_output.names);
    assert_eq!((layer.feed_forward_in.order, layer.feed_forward_in.bias), (Order::ByResult, true));
    let grouped = spec("convbert", json!({"num_groups": 2, "head_ratio": 9, "conv_kernel_size": 1}));
    assert_eq!((grouped.heads, grouped.head_dim), (1, 24));
    assert_eq!(grouped.layers[0].feed_forward_out.order, Order::GroupedByOperand(2));
    for (changes, said) in [
        (json!({"conv_kernel_size": 4}), "conv_kernel_size is 4, expected an odd number"),
        (json!({"num_groups": 5}), "num_groups is 5, which does not divide 48 columns"),
        (json!({"num_attention_heads": 10}), "hidden_size is 48, expected a multiple of 10, twice the 5 heads"),
        (json!({"head_ratio": 0}), "head_ratio is 0"),
    ] {
        let message = fault("convbert", changes);
        assert!(message.contains(said), "{message}");
    }
    let refused = reading("convbert", json!({"is_decoder": true})).unwrap_err().to_string();
    assert!(refused.contains("is_decoder true: only false is known"), "{refused}");
}
