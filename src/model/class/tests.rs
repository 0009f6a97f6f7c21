mod vectors;

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::model::heads::tests::{list, mean, model, read_modules, row};
use crate::model::heads::{LogitScore, Modules, SpladePooling, TokenPooling, Word};
use crate::ops::PoolMode;

const SETTINGS: &str = "config_sentence_transformers.json";
const TRANSFORMER: &str = "sentence_bert_config.json";

fn write(folder: &TempDir, name: &str, content: Value) {
    fs::write(folder.path().join(name), content.to_string()).unwrap();
}

fn scores(folder: &TempDir) -> Result<Modules> {
    super::read_modules(folder.path(), &super::scores::CLASS)
}

/// A folder that sentence-transformers saved as a CrossEncoder.
fn cross_encoder(modules: &[(&str, Value)], transformer: Value) -> TempDir {
    let folder = model(modules);
    write(&folder, SETTINGS, json!({"model_type": "CrossEncoder"}));
    write(&folder, TRANSFORMER, transformer);
    folder
}

fn classification() -> Value {
    json!({"transformer_task": "sequence-classification", "module_output_name": "scores",
        "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}}})
}

#[test]
fn a_bare_folder_has_the_head_of_its_checkpoint() {
    let folder = TempDir::new().unwrap();
    let modules = scores(&folder).unwrap();
    assert_eq!((modules.task, modules.listed), (Some(Task::Scores), false));
    assert!(modules.heads.is_empty());
    write(&folder, "config.json", json!({"architectures": ["AnyForCausalLM"]}));
    let modules = scores(&folder).unwrap();
    let usual = Head::LogitScore(LogitScore::named(&["yes", "no"]));
    assert_eq!((modules.task, modules.heads), (Some(Task::NextWord), vec![usual]));
}

#[test]
fn a_folder_of_another_class_is_bare_or_refused() {
    let embedding = model(&[mean()]);
    assert_eq!(scores(&embedding).unwrap(), scores(&TempDir::new().unwrap()).unwrap());
    for (saved, remedy) in [
        ("CrossEncoder", "CrossEncoder loads it"),
        ("ColBERT", "MultiVectorEncoder loads it"),
        ("Reranker", "known are SentenceTransformer, CrossEncoder, SparseEncoder, MultiVectorEncoder"),
    ] {
        write(&embedding, SETTINGS, json!({"model_type": saved}));
        let error = read_modules(embedding.path()).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }));
        let error = error.to_string();
        assert!(error.contains(&format!("{SETTINGS}: model_type {saved:?}: {remedy}")), "{error}");
    }
    write(&embedding, SETTINGS, json!({"model_type": 3}));
    assert!(matches!(read_modules(embedding.path()), Err(Error::ModelFormat { .. })));
}

#[test]
fn the_transformer_says_its_task() {
    assert_eq!(scores(&cross_encoder(&[], classification())).unwrap().task, Some(Task::Scores));
    let known = json!({"transformer_task": "feature-extraction", "module_output_name": "token_embeddings",
        "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}});
    let embedding = model(&[mean()]);
    write(&embedding, TRANSFORMER, known);
    assert_eq!(read_modules(embedding.path()).unwrap().task, None);
    let output = json!({"modality_config": {"text": {"method": "forward", "method_output_name": "pooler_output"}}});
    for content in [
        json!({"transformer_task": "text-generation"}),
        classification(),
        json!({"module_output_name": "sentence_embedding"}),
        json!({"query_expansion": {"length": 32}}),
        output,
    ] {
        write(&embedding, TRANSFORMER, content.clone());
        let error = read_modules(embedding.path()).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{content}: {error}");
    }
    for (content, part) in [
        (json!({"transformer_task": "text-generation"}), "no module gives scores"),
        (
            json!({"transformer_task": "fill-mask"}),
            "only \"feature-extraction\" or \"sequence-classification\" or \"text-generation\" is known",
        ),
        (json!({}), "no module gives scores"),
    ] {
        let error = scores(&cross_encoder(&[], content)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_dense_module_can_give_the_scores() {
    let dense = |more: Value| {
        let mut config = json!({"in_features": 8, "out_features": 1});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("Dense", config)
    };
    let scoring = || dense(json!({"module_output_name": "scores"}));
    let modules = scores(&cross_encoder(&[mean(), scoring()], json!({}))).unwrap();
    assert!(matches!(modules.heads[1], Head::Dense { of: Feature::Sentence, gives: Feature::Scores, .. }));
    assert_eq!((modules.task, modules.listed), (None, true));
    let after = dense(json!({"module_input_name": "scores"}));
    assert_eq!(scores(&cross_encoder(&[after], classification())).unwrap().heads.len(), 1);
    let error = scores(&cross_encoder(&[mean(), dense(json!({}))], json!({}))).unwrap_err().to_string();
    assert!(error.contains("no module gives scores"), "{error}");
    let wrong = dense(json!({"module_input_name": "token_embeddings", "module_output_name": "scores"}));
    let error = scores(&cross_encoder(&[mean(), wrong], json!({}))).unwrap_err().to_string();
    assert!(error.contains("module_output_name \"scores\": \"token_embeddings\" is read"), "{error}");
}

#[test]
fn logits_of_words_can_give_the_scores() {
    let generation = || {
        json!({"transformer_task": "text-generation", "module_output_name": "causal_logits",
            "modality_config": {"message": {"method": "forward", "method_output_name": "logits", "format": "flat"}}})
    };
    let of = |config: Value| scores(&cross_encoder(&[("LogitScore", config)], generation()));
    let listed = |words: &[u32]| {
        let words = words.iter().map(|id| Word::Id(*id)).collect();
        Head::LogitScore(LogitScore { path: Some("1_LogitScore".into()), words })
    };
    let both = json!({"true_token_id": 7, "false_token_id": 0, "module_input_name": "causal_logits"});
    for (config, expected) in
        [(both, listed(&[7, 0])), (json!({"true_token_id": 3, "false_token_id": null}), listed(&[3]))]
    {
        let modules = of(config).unwrap();
        assert_eq!((modules.task, modules.listed), (Some(Task::NextWord), true));
        assert_eq!(modules.heads, [expected]);
    }
    for config in
        [json!({}), json!({"true_token_id": -1}), json!({"true_token_id": "yes"}), json!({"true_token_id": 1, "x": 2})]
    {
        assert!(matches!(of(config.clone()), Err(Error::ModelFormat { .. })), "{config}");
    }
    let other = of(json!({"true_token_id": 1, "module_input_name": "logits"})).unwrap_err();
    assert!(matches!(other, Error::Unsupported { .. }) && other.to_string().contains("\"causal_logits\""), "{other}");
}

fn weights(folder: &TempDir) -> Result<Modules> {
    super::read_modules(folder.path(), &super::words::CLASS)
}

/// The settings of a folder that sentence-transformers saved as a SparseEncoder.
fn sparse_encoder(modules: &[(&str, Value)], transformer: Value) -> TempDir {
    let folder = model(modules);
    write(&folder, SETTINGS, json!({"model_type": "SparseEncoder"}));
    write(&folder, TRANSFORMER, transformer);
    folder
}

fn fill_mask() -> Value {
    json!({"transformer_task": "fill-mask", "module_output_name": "token_embeddings",
        "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}}})
}

fn splade(mode: PoolMode, twice: bool) -> Head {
    Head::SpladePooling(SpladePooling { mode, twice })
}

#[test]
fn a_bare_masked_language_model_gives_splade_vectors() {
    let folder = TempDir::new().unwrap();
    for (classes, known) in [(json!(["AnyForMaskedLM"]), true), (json!(["AnyModel"]), false), (Value::Null, false)] {
        write(&folder, "config.json", json!({"architectures": classes}));
        match weights(&folder) {
            Ok(modules) if known => {
                assert_eq!((modules.task, modules.listed), (Some(Task::Words), false));
                assert_eq!(modules.heads, [splade(PoolMode::Max, false)]);
            }
            other => {
                let error = other.unwrap_err().to_string();
                assert!(!known && error.contains("without modules.json a ...ForMaskedLM is expected there"), "{error}");
            }
        }
    }
}

#[test]
fn sparse_encoders_have_a_head_for_words_and_splade_pooling() {
    for (config, head) in [
        (json!({}), splade(PoolMode::Max, false)),
        (json!({"pooling_strategy": "sum", "activation_function": "log1p_relu"}), splade(PoolMode::Sum, true)),
        (
            json!({"pooling_strategy": "max", "activation_function": "relu", "embedding_dimension": 30}),
            splade(PoolMode::Max, false),
        ),
        (json!({"pooling_strategy": "max", "word_embedding_dimension": null}), splade(PoolMode::Max, false)),
    ] {
        let folder = sparse_encoder(&[("SpladePooling", config)], fill_mask());
        let modules = weights(&folder).unwrap();
        assert_eq!((modules.task, modules.listed, &modules.heads[..]), (Some(Task::Words), true, &[head][..]));
        // Older versions had a class for the first module, and no task in its settings.
        write(&folder, TRANSFORMER, json!({"max_seq_length": 16}));
        let rows = [
            row("", "sentence_transformers.sparse_encoder.models.MLMTransformer.MLMTransformer"),
            row("1_SpladePooling", "sentence_transformers.sparse_encoder.models.SpladePooling.SpladePooling"),
        ];
        list(&folder, &json!(rows));
        assert_eq!(weights(&folder).unwrap(), modules);
        let error = read_modules(folder.path()).unwrap_err().to_string();
        assert!(error.contains("model_type \"SparseEncoder\": SparseEncoder loads it"), "{error}");
    }
}

#[test]
fn sparse_encoders_of_other_kinds_are_refused() {
    let pooling = |config: Value| ("SpladePooling", config);
    for (modules, transformer, problem) in [
        (vec![mean()], fill_mask(), "modules [\"Pooling\"] of a SparseEncoder: SpladePooling alone is known"),
        (vec![pooling(json!({})), ("Normalize", Value::Null)], fill_mask(), "[\"SpladePooling\", \"Normalize\"]"),
        (
            vec![pooling(json!({}))],
            json!({"transformer_task": "text-generation"}),
            "only \"feature-extraction\" or \"fill-mask\" is known",
        ),
        (vec![pooling(json!({"pooling_strategy": "mean"}))], fill_mask(), "\"mean\": known are max, sum"),
        (vec![pooling(json!({"activation_function": "gelu"}))], fill_mask(), "\"gelu\": known are relu, log1p_relu"),
        (vec![("SparseAutoEncoder", json!({}))], json!({}), "of sparse encoders those with a head for words"),
    ] {
        let error = weights(&sparse_encoder(&modules, transformer)).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains(problem), "{error}");
    }
    for config in [json!({"pooling_strategy": 1}), json!({"embedding_dimension": 0}), Value::Null] {
        let error = weights(&sparse_encoder(&[pooling(config)], fill_mask())).unwrap_err();
        assert!(matches!(error, Error::ModelFormat { .. }), "{error}");
    }
}
