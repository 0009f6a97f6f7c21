//! The table of keys, and what becomes of each kind.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::model::arch::ARCHITECTURES;
use crate::model::arch::forms::LOOK_ALIKES;
use crate::model::fields::ASKED;
use crate::model::registry::{model_type, read_head, read_spec};
use crate::model::task_head::Task;

const PATH: &str = "config.json";
/// Copies of published configurations, by name, each with its source.
const PUBLISHED: &str = include_str!("../../../../tests/fixtures/published.json");
/// Forms of which no public copy is here, and that of this library.
#[rustfmt::skip]
const WITHOUT_A_COPY: &[&str] = &[
    "big_bird", "bitnet", "convbert", "deberta", "ernie", "gemma", "gte", "jina_embeddings_v3", "lfm2", "liquid_moe",
    "mixtral", "mobilebert", "phi", "qwen3_moe", "roformer", "squeezebert", "stablelm", "starcoder2", "umt5", "xmod",
];
/// What readers that several forms share ask for, though some of the forms do not have it.
const SHARED: &[&str] = &[
    "head_dim",
    "hidden_act",
    "is_causal",
    "is_decoder",
    "original_max_position_embeddings",
    "partial_rotary_factor",
    "rope_parameters",
    "rope_scaling",
];

fn published() -> BTreeMap<String, Map<String, Value>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Copy {
        source: String,
        config: Map<String, Value>,
    }
    let copies: BTreeMap<String, Copy> = serde_json::from_str(PUBLISHED).unwrap();
    assert!(copies.values().all(|copy| copy.source.starts_with("quoted in ") || copy.source.contains("/config.json")));
    copies.into_iter().map(|(name, copy)| (name, copy.config)).collect()
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap()
}

#[test]
fn every_form_has_keys_of_one_kind_each() {
    let forms = ARCHITECTURES.iter().map(|row| row.model_type).chain(LOOK_ALIKES.iter().map(|like| like.form));
    let expected: BTreeSet<&str> = forms.chain([ALL]).collect();
    assert_eq!(FORMS.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected);
    for (name, form) in FORMS.iter() {
        let all = || form.honoured.iter().chain(form.only.keys()).chain(&form.idle);
        assert_eq!(all().count(), all().collect::<BTreeSet<_>>().len(), "{name}");
        assert!(form.honoured.is_sorted() && form.idle.is_sorted(), "{name}");
        assert!(form.names.values().all(|key| form.honoured.contains(key)), "{name}");
    }
}

/// Keys of the objects within a configuration.
#[rustfmt::skip]
const INNER: [&str; 26] = [
    "full_attention", "sliding_attention", "type", "attention_factor", "beta_fast", "beta_slow", "factor",
    "high_freq_factor", "long_factor", "low_freq_factor", "mixed_b", "mscale", "mscale_all_dim",
    "original_max_position_embeddings", "partial_rotary_factor", "rope_theta", "rope_type", "short_factor",
    "truncate", "grilly_int8", "linear_class", "modules_to_not_convert", "quant_method", "quantization_mode",
    "rms_norm_eps", "use_rms_norm",
];

#[test]
fn readers_ask_for_no_key_that_the_table_does_not_honour() {
    for (name, config) in published() {
        let model_type = model_type(&config, Path::new(PATH)).unwrap();
        let row = ARCHITECTURES.iter().find(|row| row.model_type == model_type).unwrap();
        let form = row.form(&config).name;
        ASKED.take();
        let spec = read_spec(model_type, &config, Path::new(PATH)).unwrap().0;
        for task in [Task::Scores, Task::Words, Task::NextWord] {
            _ = read_head(task, model_type, &config, Path::new(PATH), &spec);
        }
        for key in ASKED.take() {
            let known = SHARED.contains(&key.as_str()) || INNER.contains(&key.as_str());
            assert!(known || matches!(kind(form, &key), Kind::Honoured | Kind::Only(_)), "{name}: {key}");
        }
    }
}

#[test]
fn published_configurations_are_read_without_a_warning() {
    let published = published();
    let found: BTreeSet<&str> = published.values().map(|config| model_type(config, Path::new(PATH)).unwrap()).collect();
    for row in ARCHITECTURES {
        assert_eq!(found.contains(row.model_type), !WITHOUT_A_COPY.contains(&row.model_type), "{}", row.model_type);
    }
    for (name, config) in &published {
        let row = ARCHITECTURES.iter().find(|row| Some(row.model_type) == config["model_type"].as_str()).unwrap();
        row.read(config, Path::new(PATH)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let form = row.form(config).name;
        let (_, unread) = sorted(form, config, Path::new(PATH)).unwrap();
        assert_eq!(misspelt(&unread, &known(form)), [], "{name}");
    }
}

#[test]
fn other_names_count_before_the_keys_own() {
    let config = json!({"n_embd": 48, "n_layer": 2, "num_hidden_layers": 3, "num_attention_heads": 4, "n_positions": 66,
        "max_position_embeddings": null, "vocab_size": 100});
    let spec = read_spec("gpt2", object(&config), Path::new(PATH)).unwrap().0;
    assert_eq!((spec.layers.len(), spec.heads, spec.positions.longest_text()), (3, 4, 66));
}

#[test]
fn a_key_is_honoured_refused_or_left_out() {
    let config = json!({"hidden_act": "gelu", "use_cache": true, "attention_mode": "longformer", "layer_norm_epz": 1,
        "is_causal": false, "per_layer_config": {}, "tie_last_hidden_states": null});
    let (kept, unread) = sorted("bert", object(&config), Path::new(PATH)).unwrap();
    assert_eq!(
        (kept, &unread[..]),
        (object(&json!({"hidden_act": "gelu"})).clone(), &["attention_mode", "layer_norm_epz"][..])
    );
    assert_eq!(misspelt(&unread, &known("bert")), [("layer_norm_epz", "layer_norm_eps")]);
    for (form, key, value, said) in [
        ("bert", "is_causal", json!(true), "config.json: is_causal true: only false is known; a model with another"),
        ("bert", "position_embedding_type", json!("relative_key"), "only \"absolute\" is known"),
        ("t5", "is_decoder", json!(true), "is_decoder true: only false is known"),
        ("new", "position_embedding_type", json!("absolute"), "only \"rope\" is known"),
        ("llama", "fusion_config", json!({"a": 1}), "fusion_config {\"a\":1}: only null is known"),
        ("nomic_bert-hub", "ffn_div", json!(2), "ffn_div 2: only 1 is known"),
    ] {
        let error = sorted(form, object(&json!({key: value})), Path::new(PATH)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    assert!(sorted("nomic_bert-hub", object(&json!({"ffn_div": 1.0})), Path::new(PATH)).is_ok());
}

#[test]
fn keys_near_one_that_is_read_are_distinguished_from_notes() {
    let known = ["hidden_size", "dim", "n_heads"];
    assert_eq!(
        misspelt(&["hiden_sise", "dims", "dog", "n_head", "_dim", "hidden_size"], &known),
        [("hiden_sise", "hidden_size"), ("dims", "dim"), ("n_head", "n_heads")]
    );
}
