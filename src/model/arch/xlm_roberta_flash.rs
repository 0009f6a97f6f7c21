//! Jina v3 (Sturua et al. 2024) as its own code on the hub stores it: BERT with rotary positions and, for each of
//! several tasks, an adapter of low rank (Hu et al. 2021) of every table and product.
//!
//! Its `model_type` is that of XLM-RoBERTa; its other keys tell them apart.

use serde_json::{Map, Value, json};

use super::config::{self, BERT_KEYS, ConfigFile, Keys, MOST_ROWS, Read};
use super::keys::only;
use super::rotary_bert;
use crate::model::fields::Fields;
use crate::model::spec::{Adapters, Layer, NameRules, Norms, Product};
use crate::tensor::MOST_RANK;

/// The class of its first module, which takes the task.
pub(super) const MODULE: &str = "custom_st.Transformer";

const KEYS: Keys = Keys { norm_eps: Some(("layer_norm_eps", 1e-5)), ..BERT_KEYS };
/// Name of the repository of its code.
const CODE: &str = "xlm-roberta-flash-implementation";
const POSITIONS: &str = "position_embedding_type";
const TASKS: &str = "lora_adaptations";

/// Whether a configuration is one of this code: each of its marks is enough.
pub(super) fn is(config: &Map<String, Value>) -> bool {
    let named = |key: &str, name: &str| config.get(key).is_some_and(|value| value.to_string().contains(name));
    let set = |key: &str| config.get(key).is_some_and(|value| !value.is_null());
    set(TASKS)
        || set("rotary_emb_base")
        || config.get(POSITIONS) == Some(&json!("rotary"))
        || named("auto_map", CODE)
        || named("architectures", "XLMRobertaLoRA")
}

/// Reads a configuration of this code.
///
/// # Errors
/// As [`config::read`]; `Unsupported` for variants of the model.
pub(super) fn read(config: ConfigFile<'_>) -> Read {
    if config.values.get(TASKS).is_some_and(|tasks| !tasks.is_null()) {
        let key = "load_trained_adapters";
        only(key, config.values.get(key).unwrap_or_default(), &[json!(true)], config.path)?;
    }
    let spec = config::read(config, &KEYS, |fields, spec| {
        rotary_bert::rotary(fields, spec, ("rotary_emb_base", 10_000.0));
        fields.expect_size("rotary_emb_dim", spec.head_dim);
        let multiple = fields.optional_size("pad_vocab_size_multiple", 1..=MOST_ROWS).unwrap_or(1);
        spec.words.rows = spec.words.rows.next_multiple_of(multiple);
        spec.adapters = read_adapters(fields);
    })?;
    let spec = spec.with_layers(|number| {
        let name = |part: &str| format!("encoder.layers.{number}.{part}");
        Layer {
            query_key_value: Product::biased([name("mixer.Wqkv")]),
            attention_output: Product::biased([name("mixer.out_proj")]),
            attention_norms: Norms::sum(name("norm1")),
            feed_forward_in: Product::biased([name("mlp.fc1")]),
            feed_forward_out: Product::biased([name("mlp.fc2")]),
            feed_forward_norms: Norms::sum(name("norm2")),
            ..rotary_bert::layer(number)
        }
    });
    let ending = |old: &str, new: &str| (format!(".parametrizations.weight.{old}"), format!(".{new}"));
    let rules = NameRules {
        prefixes: vec!["roberta.".into()],
        starts: vec![("emb_ln.".into(), "embeddings.LayerNorm.".into())],
        endings: vec![ending("original", "weight"), ending("0.lora_A", "lora_A"), ending("0.lora_B", "lora_B")],
        ..NameRules::default()
    };
    Ok((spec, rules))
}

/// The adapters, whose factor is `lora_alpha / lora_rank`.
fn read_adapters(fields: &mut Fields<'_>) -> Option<Adapters> {
    let rank = fields.optional_size("lora_rank", 1..=MOST_RANK).unwrap_or(4);
    let scale = (fields.number_or("lora_alpha", 1.0, 0.0..=1e6) / rank as f64) as f32;
    let tasks: Vec<String> = fields.texts(TASKS)?.into_iter().map(str::to_owned).collect();
    if tasks.is_empty() {
        fields.fault(format!("{TASKS} is empty, expected the names of tasks"));
    }
    Some(Adapters { tasks, rank, scale, module: MODULE, chosen: None })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::model::registry::read_spec;
    use crate::model::rotary::Rotary;
    use crate::model::spec::Positions;

    fn config(changes: Value) -> Map<String, Value> {
        let mut config = json!({"hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
            "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 66, "type_vocab_size": 1});
        config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        config.as_object().unwrap().clone()
    }

    fn reading(changes: Value) -> Read {
        read_spec("roberta", &config(changes), Path::new("config.json"))
    }

    #[test]
    fn each_mark_tells_it_from_xlm_roberta() {
        assert!(!is(&config(json!({"lora_adaptations": null, "position_embedding_type": "absolute"}))));
        for mark in [
            json!({"rotary_emb_base": 10000.0}),
            json!({"position_embedding_type": "rotary"}),
            json!({"auto_map": {"AutoModel": "jinaai/xlm-roberta-flash-implementation--modeling_lora.XLMRobertaLoRA"}}),
            json!({"architectures": ["XLMRobertaLoRA"]}),
        ] {
            let (spec, _) = reading(mark).unwrap();
            assert_eq!((&spec.rotary[..], spec.norm_eps), (&[Rotary::new(10_000.0, 12)][..], 1e-5));
            assert_eq!((spec.positions, spec.adapters), (Positions::None { longest: 66 }, None));
        }
    }

    #[test]
    fn adapters_have_a_factor_and_names() {
        let keys = json!({"lora_adaptations": ["a", "b"], "load_trained_adapters": true, "lora_alpha": 2, "lora_rank": 8,
            "lora_dropout_p": 0.1, "pad_vocab_size_multiple": 64});
        let (spec, rules) = reading(keys).unwrap();
        let tasks = vec!["a".into(), "b".into()];
        assert_eq!(spec.adapters, Some(Adapters { tasks, rank: 8, scale: 0.25, module: MODULE, chosen: None }));
        assert_eq!(spec.words.rows, 128);
        for (stored, uniform) in [
            (
                "roberta.embeddings.word_embeddings.parametrizations.weight.original",
                "embeddings.word_embeddings.weight",
            ),
            (
                "roberta.encoder.layers.0.mixer.Wqkv.parametrizations.weight.0.lora_B",
                "encoder.layers.0.mixer.Wqkv.lora_B",
            ),
            ("roberta.encoder.layers.0.mixer.Wqkv.bias", "encoder.layers.0.mixer.Wqkv.bias"),
            ("roberta.emb_ln.weight", "embeddings.LayerNorm.weight"),
        ] {
            assert_eq!(rules.uniform(stored), uniform);
        }
        assert!(rules.ignores(&rules.uniform("roberta.pooler.dense.parametrizations.weight.0.lora_A")));
    }

    #[test]
    fn variants_are_refused_by_name() {
        for (changes, key) in [
            (json!({"rotary_emb_base": 1e4, "position_embedding_type": "alibi"}), POSITIONS),
            (json!({"rotary_emb_base": 1e4, "rotary_emb_interleaved": true}), "rotary_emb_interleaved"),
            (json!({"rotary_emb_base": 1e4, "rotary_emb_dim": 6}), "rotary_emb_dim"),
            (json!({"lora_adaptations": ["a"], "load_trained_adapters": false}), "load_trained_adapters"),
            (json!({"lora_adaptations": []}), TASKS),
            (json!({"lora_adaptations": ["a"], "lora_rank": 0}), "lora_rank"),
            (json!({"lora_adaptations": [1]}), TASKS),
        ] {
            let error = reading(changes).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
