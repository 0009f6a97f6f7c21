use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::model::heads::First;

/// A folder with `modules.json` and the given files; strings are written verbatim.
fn folder(files: &[(&str, Value)]) -> TempDir {
    let folder = bare(files);
    fs::write(folder.path().join("modules.json"), "[]").unwrap();
    folder
}

fn bare(files: &[(&str, Value)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn default_prompts() -> Vec<(String, String)> {
    ["query", "document"].map(|name| (name.to_owned(), String::new())).to_vec()
}

fn read(folder: &TempDir) -> Result<SentenceConfig> {
    read_as(folder, CLASSES[0])
}

fn read_as(folder: &TempDir, class: &Class) -> Result<SentenceConfig> {
    let listed = folder.path().join("modules.json").exists();
    let modules = Modules {
        first: First::Transformer,
        transformer: String::new(),
        listed,
        own_class: None,
        takes_task: false,
        task: None,
        heads: Vec::new(),
    };
    let arguments = if listed { Arguments::of_folder(folder.path())? } else { Arguments::default() };
    let config = read_json(&folder.path().join("config.json")).unwrap_or_default();
    read_sentence_config(folder.path(), class, &modules, &arguments, &config)
}

const MODEL: &str = "config_sentence_transformers.json";
const TRANSFORMER: &str = "sentence_bert_config.json";

#[test]
fn no_files_mean_the_defaults() {
    let config = read(&folder(&[])).unwrap();
    assert_eq!(config, SentenceConfig { prompts: default_prompts(), ..SentenceConfig::default() });
}

#[test]
fn both_files_are_read() {
    let config = read(&folder(&[
        (
            MODEL,
            json!(
                r#"{"prompts": {"zebra": "z: ", "document": "d: ", "apple": null}, "default_prompt_name": "zebra",
                "similarity_fn_name": "dot", "truncate_dim": 64, "max_active_dims": 9, "__version__": {}, "model_type": "SentenceTransformer"}"#
            ),
        ),
        (TRANSFORMER, json!({"max_seq_length": 256, "do_lower_case": true})),
    ]))
    .unwrap();
    let prompts: Vec<(&str, &str)> = config.prompts.iter().map(|(name, text)| (&**name, &**text)).collect();
    assert_eq!(prompts, [("query", ""), ("document", "d: "), ("zebra", "z: "), ("apple", "")]);
    assert_eq!(config.default_prompt_name.as_deref(), Some("zebra"));
    assert_eq!(config.similarity_fn_name.as_deref(), Some("dot"));
    assert_eq!(Value::Object(config.settings), json!({"truncate_dim": 64, "max_active_dims": 9}));
    assert_eq!((config.max_seq_length, config.do_lower_case), (Some(256), true));
}

#[test]
fn limits_have_an_order() {
    let limit = |files: &[(&str, Value)]| read(&folder(files)).unwrap().max_seq_length;
    let tokenizer = ("tokenizer_config.json", json!({"model_max_length": 30}));
    assert_eq!(limit(&[(TRANSFORMER, json!({"max_seq_length": 20})), tokenizer.clone()]), Some(20));
    assert_eq!(limit(&[(TRANSFORMER, json!({"max_seq_length": 40})), tokenizer.clone()]), Some(40));
    assert_eq!(limit(&[(TRANSFORMER, json!({"max_seq_length": null})), tokenizer.clone()]), Some(30));
    let arguments = json!({"max_seq_length": 40, "tokenizer_args": {"model_max_length": 9}});
    assert_eq!(limit(&[(TRANSFORMER, arguments), tokenizer.clone()]), Some(9));
    let positions = ("config.json", json!({"max_position_embeddings": 25}));
    assert_eq!(limit(&[positions.clone(), tokenizer.clone()]), Some(25));
    assert_eq!(limit(&[("config.json", json!({"n_positions": 26})), tokenizer.clone()]), Some(26));
    let no_table = json!({"n_positions": 26, "d_model": 8});
    assert_ne!(limit(&[("config.json", no_table), tokenizer.clone()]), Some(26));
    assert_eq!(limit(&[positions, (TRANSFORMER, json!({"max_seq_length": 40}))]), Some(40));
    let unlimited = json!(r#"{"model_max_length": 1000000000000000019884624838656}"#);
    assert_eq!(limit(&[("tokenizer_config.json", unlimited)]), None);
    for (stated, expected) in [
        (json!({"max_len": 7}), Some(7)),
        (json!({"max_len": 7, "model_max_length": 9}), Some(9)),
        (json!({"max_len": 7, "model_max_length": null}), None),
    ] {
        assert_eq!(limit(&[("tokenizer_config.json", stated)]), expected);
    }
    // An empty file counts as missing; the next name is tried.
    let older = ("sentence_roberta_config.json", json!({"max_seq_length": 77}));
    assert_eq!(limit(&[(TRANSFORMER, json!({})), older, tokenizer]), Some(77));
}

#[test]
fn a_bare_transformer_has_only_the_tokenizers_limit() {
    let config = read(&bare(&[
        (TRANSFORMER, json!({"max_seq_length": 20, "do_lower_case": true})),
        (MODEL, json!({"prompts": {"a": "b"}})),
        ("tokenizer_config.json", json!({"model_max_length": 512})),
    ]));
    let expected = SentenceConfig {
        prompts: default_prompts(),
        max_seq_length: Some(512),
        messages: Messages::WithTemplate,
        ..SentenceConfig::default()
    };
    assert_eq!(config.unwrap(), expected);
}

#[test]
fn absurd_values_are_refused() {
    let cases: &[(&str, Value, &str)] = &[
        (MODEL, json!("{"), "not valid JSON"),
        (MODEL, json!([1, 2]), "expected a JSON object"),
        (MODEL, json!({"prompts": ["a"]}), "prompts"),
        (MODEL, json!({"prompts": {"a": 3}}), "the prompt \"a\" is 3"),
        (MODEL, json!({"prompts": {"a": ""}, "default_prompt_name": "b"}), "default_prompt_name \"b\""),
        (MODEL, json!({"default_prompt_name": 4}), "default_prompt_name is 4"),
        (MODEL, json!({"truncate_dim": 0}), "truncate_dim is 0"),
        (MODEL, json!({"truncate_dim": "all"}), "truncate_dim"),
        (TRANSFORMER, json!({"max_seq_length": 0}), "max_seq_length is 0"),
        (TRANSFORMER, json!({"max_seq_length": -5}), "max_seq_length is -5"),
        (TRANSFORMER, json!({"max_seq_length": 1e12}), "max_seq_length"),
        (TRANSFORMER, json!({"do_lower_case": 1}), "do_lower_case is 1"),
        (TRANSFORMER, json!({"max_seq_lenght": 5}), "max_seq_lenght is not a setting"),
        (TRANSFORMER, json!({"processing_kwargs": {"text": 3}}), "text is 3"),
        (TRANSFORMER, json!({"processing_kwargs": {"text": {"max_length": 0}}}), "max_length 0"),
        ("tokenizer_config.json", json!({"model_max_length": -1}), "model_max_length"),
        ("tokenizer_config.json", json!({"model_max_length": "many"}), "model_max_length"),
    ];
    for (name, content, part) in cases {
        let error = read(&folder(&[(name, content.clone())])).unwrap_err();
        assert!(matches!(error, crate::Error::ModelFormat { .. }), "{content}: {error}");
        let message = error.to_string();
        assert!(message.contains(part) && message.contains(name), "{part} not in {message}");
    }
}

#[test]
fn a_cross_encoder_has_no_prompts_of_its_own() {
    let folder =
        folder(&[(MODEL, json!({"prompts": {"query": "q: "}, "activation_fn": "torch.nn.modules.linear.Identity"}))]);
    let config = read_as(&folder, Class::named("CrossEncoder").unwrap()).unwrap();
    assert_eq!(config.prompts, [("query".to_owned(), "q: ".to_owned())]);
    assert_eq!(config.settings["activation_fn"], "torch.nn.modules.linear.Identity");
}

#[test]
fn unreadable_files_are_named() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("config.json");
    assert!(read_json(&path).unwrap_err().to_string().ends_with("config.json: no such file"));
    fs::create_dir(&path).unwrap();
    assert!(read_json(&path).unwrap_err().to_string().contains("not a regular file"));
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    fs::write(folder.path().join("deep.json"), nested).unwrap();
    assert!(read_json(&folder.path().join("deep.json")).unwrap_err().to_string().contains("not valid JSON"));
}
