use super::*;
use crate::model::arguments::Arguments;
use crate::model::class;
use crate::model::config::{Expansion, SentenceConfig, read_sentence_config};

/// The modules and settings of a folder of a MultiVectorEncoder.
fn vectors(folder: &TempDir) -> Result<(Modules, SentenceConfig)> {
    let modules = class::read_modules(folder.path(), &class::vectors::CLASS)?;
    let none = (Arguments::default(), Map::new());
    let config = read_sentence_config(folder.path(), &class::vectors::CLASS, &modules, &none.0, &none.1)?;
    Ok((modules, config))
}

fn projection(more: Value) -> (&'static str, Value) {
    let mut config = json!({"in_features": 8, "out_features": 4, "bias": false,
        "activation_function": "torch.nn.modules.linear.Identity"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ("Dense", config)
}

fn of_tokens() -> (&'static str, Value) {
    ("Normalize", json!({"module_input_name": "token_embeddings"}))
}

#[test]
fn a_multi_vector_encoder_projects_and_chooses_tokens() {
    let mask =
        ("MultiVectorMask", json!({"skiplist_words": ["!"], "skiplist_tasks": "query", "keep_only_token_ids": [3]}));
    let folder = model(&[projection(json!({})), mask, of_tokens()]);
    write(&folder, SETTINGS, json!({"model_type": "MultiVectorEncoder", "similarity_fn_name": "meanmaxsim"}));
    let expansion = json!({"strategy": "min", "attend": true, "token": "x", "length": 9});
    write(&folder, TRANSFORMER, json!({"query_length": 12, "query_expansion": expansion}));
    let (modules, config) = vectors(&folder).unwrap();
    let [Head::Dense { of, gives, .. }, Head::MultiVectorMask(mask), Head::Normalize { of: last }] = &modules.heads[..]
    else {
        panic!("{modules:?}")
    };
    assert_eq!([*of, *gives, *last], [Feature::Tokens; 3]);
    assert_eq!(
        (&mask.skipped[..], &mask.tasks[..], &mask.kept[..]),
        (&["!".into()][..], &["query".into()][..], &[3][..])
    );
    let found = config.expansion.unwrap();
    assert_eq!(found, Expansion { fixed: false, seen: true, token: Some("x".into()), length: 9 });
    assert_eq!((found.to_json(), config.task_lengths), (expansion, [Some(12), None]));
    assert_eq!(config.similarity_fn_name.as_deref(), Some("meanmaxsim"));
    assert!(config.markers.is_empty());
}

#[test]
fn vectors_are_pooled_by_the_last_module() {
    let pooling = |settings: Value| {
        let folder = model(&[projection(json!({})), of_tokens(), ("HierarchicalTokenPooling", settings)]);
        write(&folder, SETTINGS, json!({"model_type": "MultiVectorEncoder"}));
        vectors(&folder).map(|(mut modules, _)| modules.heads.pop())
    };
    let settings =
        json!({"pool_factor": 1.5, "num_protected_tokens": 0, "normalize_embeddings": true, "tasks": "query"});
    let found = pooling(settings).unwrap();
    let tasks = |task: &str| vec![task.to_owned()];
    let expected = TokenPooling { factor: 1.5, protected: 0, normalizes: true, tasks: tasks("query") };
    assert_eq!(found, Some(Head::TokenPooling(expected)));
    let older = TokenPooling { factor: 1.0, protected: 1, normalizes: false, tasks: tasks("document") };
    assert_eq!(pooling(json!({})).unwrap(), Some(Head::TokenPooling(older)));
    for (settings, problem) in [
        (json!({"pool_factor": 0.5}), "pool_factor is 0.5, expected a number from 1"),
        (json!({"num_protected_tokens": -1}), "num_protected_tokens is -1"),
        (json!({"factor": 2}), "the module has no setting factor"),
    ] {
        let error = pooling(settings).unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains("HierarchicalTokenPooling/config.json"), "{error}");
    }
    let pooled = model(&[("HierarchicalTokenPooling", json!({})), mean()]);
    let error = read_modules(pooled.path()).unwrap_err().to_string();
    assert!(error.contains("module HierarchicalTokenPooling: a MultiVectorEncoder alone has it"), "{error}");
}

#[test]
fn a_folder_of_pylate_has_its_settings_elsewhere() {
    let settings = json!({"query_prefix": "[Q] ", "document_prefix": "[D] ", "prompts": {"query": "[Q] ask: "},
        "query_length": 30, "document_length": 70, "model_type": "ColBERT"});
    let folder = model(&[projection(json!({}))]);
    let pylates = |folder: &TempDir| {
        let rows = [row("", "sentence_transformers.models.Transformer"), row("1_Dense", "pylate.models.Dense.Dense")];
        list(folder, &json!(rows));
    };
    pylates(&folder);
    let with = |more: Value| {
        let mut settings = settings.clone();
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        write(&folder, SETTINGS, settings);
        vectors(&folder)
    };
    let (modules, config) = with(json!({"attend_to_expansion_tokens": false, "skiplist_words": [","]})).unwrap();
    let [Head::Dense { of: Feature::Tokens, .. }, Head::MultiVectorMask(mask), Head::Normalize { of: Feature::Tokens }] =
        &modules.heads[..]
    else {
        panic!("{modules:?}")
    };
    assert_eq!((&mask.skipped[..], &mask.tasks[..]), (&[",".to_owned()][..], &["document".to_owned()][..]));
    let prompts: Vec<(&str, &str)> = config.prompts.iter().map(|(name, text)| (&**name, &**text)).collect();
    assert_eq!(prompts, [("query", "[Q] ask: "), ("document", "[D] ")]);
    assert_eq!((&config.markers[..], config.task_lengths), (&["[Q] ".into(), "[D] ".into()][..], [None, Some(70)]));
    let expansion = |length, seen| Some(Expansion { fixed: true, seen, token: None, length });
    assert_eq!(config.expansion, expansion(30, false));
    // Without a statement of the words they are those of punctuation, and queries are expanded to 32 tokens.
    for (more, length, seen) in [
        (json!({"query_length": null}), Some(32), false),
        (json!({"attend_to_expansion_tokens": true}), Some(30), true),
        (json!({"attend_to_mask_tokens": true}), Some(30), true),
        (json!({"do_query_expansion": false}), None, false),
        (json!({"query_expansion": null}), None, false),
        (json!({"model_type": null}), Some(30), false),
    ] {
        let (modules, config) = with(more.clone()).unwrap();
        assert_eq!(config.expansion, length.and_then(|length| expansion(length, seen)), "{more}");
        assert!(matches!(&modules.heads[1], Head::MultiVectorMask(mask) if mask.skipped.len() == 32), "{more}");
    }
    // What the Transformer's settings say counts.
    write(&folder, TRANSFORMER, json!({"document_length": 50, "query_expansion": null}));
    let (_, config) = with(json!({})).unwrap();
    assert_eq!((config.task_lengths, config.expansion), ([None, Some(50)], None));
    let error = read_modules(folder.path()).unwrap_err().to_string();
    assert!(error.contains("model_type \"ColBERT\": MultiVectorEncoder loads it"), "{error}");
}

#[test]
fn multi_vector_encoders_of_other_kinds_are_refused() {
    let saved = |modules: &[(&str, Value)], transformer: Value| {
        let folder = model(modules);
        write(&folder, SETTINGS, json!({"model_type": "MultiVectorEncoder"}));
        write(&folder, TRANSFORMER, transformer);
        vectors(&folder).unwrap_err()
    };
    for (modules, transformer, problem) in [
        (vec![mean()], json!({}), "module Pooling of a MultiVectorEncoder: known are MultiVectorMask, and Dense"),
        (vec![projection(json!({})), ("Normalize", json!({}))], json!({}), "module Normalize of a MultiVectorEncoder"),
        (vec![("LambdaTokenPooling", json!({}))], json!({}), "pass the function to encode_document"),
        (
            vec![("HierarchicalTokenPooling", json!({})), of_tokens()],
            json!({}),
            "module Normalize after a HierarchicalTokenPooling: that is the last module",
        ),
        (vec![], json!({"transformer_task": "retrieval"}), "models of images are encoded with sentence-transformers"),
    ] {
        let error = saved(&modules, transformer);
        assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains(problem), "{error}");
    }
    let expanded = |expansion: Value| json!({"query_length": 9, "query_expansion": expansion});
    for (transformer, problem) in [
        (expanded(json!({"strategy": "most", "length": 5})), "query_expansion: strategy is Some(\"most\"), expected"),
        (expanded(json!({"strategy": "min"})), "query_expansion: length is missing"),
        (expanded(json!({"strategy": "min", "length": 0})), "query_expansion: length is 0"),
        (expanded(json!({"strategy": "min", "length": 5, "attend": 1})), "query_expansion: attend is 1"),
        (expanded(json!({"strategy": "min", "length": 5, "size": 1})), "query_expansion: size is not a setting of it"),
        (
            expanded(json!({"strategy": "min", "length": 10})),
            "query_length is 9, less than length 10 of query_expansion",
        ),
    ] {
        let error = saved(&[projection(json!({}))], transformer);
        assert!(matches!(error, Error::ModelFormat { .. }) && error.to_string().contains(problem), "{error}");
    }
    for config in
        [json!({"skiplist_words": 3}), json!({"keep_only_token_ids": [0.5]}), json!({"skiplist": ["x"]}), Value::Null]
    {
        let error = saved(&[projection(json!({})), ("MultiVectorMask", config)], json!({}));
        assert!(matches!(error, Error::ModelFormat { .. }), "{error}");
    }
    let folder = TempDir::new().unwrap();
    write(&folder, "config.json", json!({"architectures": ["BertModel"]}));
    let error = vectors(&folder).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }) && error.to_string().contains("has no projection"), "{error}");
}
