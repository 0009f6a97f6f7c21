use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::*;

fn of_folder(settings: &Value) -> Result<Arguments> {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("sentence_bert_config.json"), settings.to_string()).unwrap();
    Arguments::of_folder(folder.path())
}

#[test]
fn no_name_stands_twice() {
    for kind in &KINDS {
        let names: Vec<&str> = kind.rows.iter().flat_map(|(names, _)| names.split_whitespace()).collect();
        for (place, name) in names.iter().enumerate() {
            assert!(!names[..place].contains(name), "{}: {name}", kind.name);
        }
    }
}

#[test]
fn a_callers_arguments_count_before_the_folders() {
    let folder = of_folder(&json!({
        "tokenizer_args": {"do_lower_case": true, "truncation_side": "left", "unheard_of": 1, "cache_dir": "/tmp"},
        "processor_kwargs": {"do_lower_case": false},
        "config_args": {"hidden_act": "relu"}
    }));
    let caller = Arguments::of_caller(r#"{"processor_kwargs": {"truncation_side": "right"}}"#).unwrap().0;
    let both = folder.unwrap().and(&caller);
    let expected = json!({"do_lower_case": true, "truncation_side": "right", "unheard_of": 1});
    assert_eq!(Value::Object(both.processor), expected);
    assert_eq!(Value::Object(both.config), json!({"hidden_act": "relu"}));
}

#[test]
fn what_has_another_effect_is_refused() {
    for (kind, key) in [
        ("model_kwargs", "variant"),
        ("model_kwargs", "unheard_of"),
        ("processor_kwargs", "tokenizer_type"),
        ("processor_kwargs", "add_special_tokens"),
        ("config_kwargs", "model_type"),
    ] {
        let arguments = json!({kind: {key: "x"}});
        for error in [Arguments::of_caller(&arguments.to_string()).unwrap_err(), of_folder(&arguments).unwrap_err()] {
            assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(key), "{error}");
        }
    }
    let error = Arguments::of_caller(r#"{"processor_kwargs": {"truncation_sides": "left"}}"#).unwrap_err();
    assert!(error.to_string().contains("nearest name that is read is \"truncation_side\""), "{error}");
    assert!(Arguments::of_caller("[]").is_err());
    assert!(of_folder(&json!({"model_kwargs": 3})).is_err());
}

#[test]
fn a_value_is_replaced_where_the_file_has_it() {
    let replaced = |given: Value, file: Value| {
        let arguments = Arguments { config: given.as_object().unwrap().clone(), ..Arguments::default() };
        let mut config = file.as_object().unwrap().clone();
        arguments.replace(&mut config, Path::new("config.json"));
        Value::Object(config)
    };
    let own = json!({"n_layers": 3});
    assert_eq!(replaced(json!({"num_hidden_layers": 2}), own), json!({"n_layers": 2}));
    assert_eq!(replaced(json!({"num_hidden_layers": 2}), json!({})), json!({"num_hidden_layers": 2}));
    let kinds = json!({"num_hidden_layers": 3, "layer_types": ["a", "b", "c"]});
    let fewer = json!({"num_hidden_layers": 2, "layer_types": ["a", "b"]});
    assert_eq!(replaced(json!({"num_hidden_layers": 2}), kinds), fewer);
    assert_eq!(replaced(json!({"is_causal": false}), json!({})), json!({}));
    assert_eq!(replaced(json!({"is_causal": false}), json!({"is_causal": true})), json!({"is_causal": false}));
}
