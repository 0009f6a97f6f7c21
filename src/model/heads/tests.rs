mod graph;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::known::LEFT_OUT;
use super::read::{ACTIVATIONS, MODES};
use super::*;
use crate::model::class::{self, CLASSES};
use crate::{Error, Result};

pub(in crate::model) fn read_modules(folder: &Path) -> Result<Modules> {
    class::read_modules(folder, CLASSES[0])
}

/// A model of a Transformer and the given modules: (class after `models.`, configuration or null for none).
pub(in crate::model) fn model(modules: &[(&str, Value)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    let mut rows = vec![row("", "sentence_transformers.models.Transformer")];
    for (i, (kind, config)) in modules.iter().enumerate() {
        let place = format!("{}_{kind}", i + 1);
        rows.push(row(&place, &format!("sentence_transformers.models.{kind}")));
        if !config.is_null() {
            fs::create_dir(folder.path().join(&place)).unwrap();
            fs::write(folder.path().join(&place).join("config.json"), config.to_string()).unwrap();
        }
    }
    list(&folder, &json!(rows));
    folder
}

pub(in crate::model) fn row(path: &str, class: &str) -> Value {
    json!({"idx": 0, "name": "0", "path": path, "type": class})
}

pub(in crate::model) fn list(folder: &TempDir, rows: &Value) {
    fs::write(folder.path().join("modules.json"), rows.to_string()).unwrap();
}

fn heads(modules: &[(&str, Value)]) -> Result<Vec<Head>> {
    Ok(read_modules(model(modules).path())?.heads)
}

pub(in crate::model) fn mean() -> (&'static str, Value) {
    ("Pooling", json!({"embedding_dimension": 8, "pooling_mode": "mean"}))
}

fn modes(config: Value) -> Vec<PoolMode> {
    match heads(&[("Pooling", config)]).unwrap().remove(0) {
        Head::Pooling { modes, .. } => modes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_modules_the_mean_is_taken() {
    let folder = TempDir::new().unwrap();
    let modules = read_modules(folder.path()).unwrap();
    assert_eq!(modules.transformer, "");
    assert_eq!(modules.heads, [Head::Pooling { modes: vec![PoolMode::Mean], include_prompt: true }]);
    assert!(matches!(read_modules(&folder.path().join("none")), Err(Error::ModelFormat { .. })));
}

#[test]
fn a_bare_causal_language_model_pools_its_last_token() {
    for (config, mode) in [
        (json!({"architectures": ["AnyForCausalLM"]}), PoolMode::LastToken),
        (json!({"architectures": ["AnyForCausalLM"], "is_causal": false}), PoolMode::Mean),
        (json!({"architectures": ["AnyForCausalLM"], "is_causal": null}), PoolMode::Mean),
        (json!({"architectures": ["AnyModel", "AnyForCausalLM"]}), PoolMode::Mean),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let heads = read_modules(folder.path()).unwrap().heads;
        assert_eq!(heads, [Head::Pooling { modes: vec![mode], include_prompt: true }]);
    }
}

#[test]
fn every_module_is_read() {
    let dense = json!({"in_features": 8, "out_features": 4, "bias": false, "use_residual": true,
        "activation_function": "torch.nn.modules.linear.Identity"});
    let folder = model(&[
        mean(),
        ("Dropout", json!({"dropout": 0.3})),
        ("Dense", dense),
        ("LayerNorm", json!({"dimension": 4})),
        ("Normalize", Value::Null),
    ]);
    let modules = read_modules(folder.path()).unwrap();
    assert_eq!(
        modules.heads[1..],
        [
            Head::Idle("Dropout"),
            Head::Dense {
                path: "3_Dense".into(),
                of: Feature::Sentence,
                gives: Feature::Sentence,
                input: 8,
                output: 4,
                bias: false,
                activation: ActivationKind::Identity,
                residual: true
            },
            Head::LayerNorm { path: "4_LayerNorm".into(), dimension: 4 },
            Head::Normalize { of: Feature::Sentence }
        ]
    );
    assert_eq!(modules.tensor_folders(), ["3_Dense", "4_LayerNorm"]);
}

#[test]
fn new_class_names_and_subfolders_are_known() {
    let folder = model(&[mean()]);
    list(
        &folder,
        &json!([
            row("0_Transformer", "sentence_transformers.base.modules.transformer.Transformer"),
            row("1_Pooling", "sentence_transformers.sentence_transformer.modules.pooling.Pooling"),
            row("", "sentence_transformers.models.Normalize")
        ]),
    );
    let modules = read_modules(folder.path()).unwrap();
    assert_eq!(modules.transformer, "0_Transformer");
    assert_eq!(modules.heads.len(), 2);
}

#[test]
fn pooling_modes_of_both_kinds_of_files() {
    use PoolMode::*;
    assert_eq!(modes(json!({"pooling_mode": "lasttoken"})), [LastToken]);
    // A list keeps its own order; the booleans have a fixed one.
    assert_eq!(modes(json!({"pooling_mode": ["mean", "cls"]})), [Mean, Cls]);
    assert_eq!(modes(json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true})), [Cls, Mean]);
    let all: serde_json::Map<String, Value> =
        MODES.iter().map(|(_, key, _)| ((*key).to_owned(), json!(true))).collect();
    assert_eq!(modes(json!(all)), [Cls, Max, Mean, MeanSqrtLength, WeightedMean, LastToken]);
    assert_eq!(modes(json!({"word_embedding_dimension": 8, "pooling_mode_mean_tokens": false})), [Mean]);
    assert_eq!(modes(json!({"pooling_mode": "max", "pooling_mode_cls_token": true})), [Max]);
    let excluded = heads(&[("Pooling", json!({"pooling_mode": "mean", "include_prompt": false}))]).unwrap();
    assert_eq!(excluded, [Head::Pooling { modes: vec![Mean], include_prompt: false }]);
}

#[test]
fn activations_go_by_their_class() {
    let dense = |activation: Value| {
        let config = json!({"in_features": 8, "out_features": 4, "activation_function": activation});
        heads(&[mean(), ("Dense", config)]).map(|mut heads| heads.remove(1))
    };
    for (name, kind) in ACTIVATIONS {
        let class = format!("torch.nn.modules.activation.{name}");
        assert!(matches!(dense(json!(class)).unwrap(), Head::Dense { activation, .. } if activation == kind));
    }
    assert!(matches!(dense(Value::Null).unwrap(), Head::Dense { activation: ActivationKind::Tanh, bias: true, .. }));
    for unknown in ["torch.nn.modules.activation.Mish", "my_package.Tanh", "Tanh", "torch.nn."] {
        assert!(matches!(dense(json!(unknown)), Err(Error::Unsupported { .. })), "{unknown}");
    }
}

#[test]
fn paths_that_leave_the_folder_are_refused() {
    for path in ["..", "../other", "1_Pooling/../../x", "/etc", "C:\\x", "a\\..\\..", "\0"] {
        let folder = model(&[mean()]);
        for rows in [
            json!([row(path, "sentence_transformers.models.Transformer")]),
            json!([
                row("", "sentence_transformers.models.Transformer"),
                row(path, "sentence_transformers.models.Normalize")
            ]),
        ] {
            list(&folder, &rows);
            let error = read_modules(folder.path()).unwrap_err();
            assert!(matches!(error, Error::ModelFormat { .. }), "{path}: {error}");
            assert!(error.to_string().contains("leaves the model's folder"), "{error}");
        }
    }
}

#[test]
fn other_modules_are_unsupported() {
    let dense = |more: Value| {
        let mut config = json!({"in_features": 8, "out_features": 4});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        vec![mean(), ("Dense", config)]
    };
    let cases = [
        vec![mean(), ("Reranker", json!({}))],
        vec![("Normalize", Value::Null)],
        vec![("Pooling", json!({"pooling_mode": "median"}))],
        vec![("Pooling", json!({"pooling_mode": ["mean", 3]}))],
        dense(json!({"module_input_name": "other"})),
        dense(json!({"module_output_name": "other"})),
        dense(json!({"module_output_name": "token_embeddings"})),
        dense(json!({"module_input_name": "token_embeddings", "module_output_name": "sentence_embedding"})),
        vec![mean(), ("Normalize", json!({"module_input_name": "other"}))],
    ];
    for modules in &cases {
        let error = heads(modules).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{modules:?}: {error}");
    }
    let folder = model(&[]);
    for class in ["custom.Transformer", "sentence_transformers_fork.models.Transformer", "", "Transformer"] {
        list(&folder, &json!([row("", class)]));
        assert!(matches!(read_modules(folder.path()), Err(Error::Unsupported { .. })), "{class}");
    }
    list(&folder, &json!([row("", "sentence_transformers.models.Pooling")]));
    assert!(matches!(read_modules(folder.path()), Err(Error::Unsupported { .. })));
}

#[test]
fn absurd_files_are_refused() {
    let pooling = |config: Value| vec![("Pooling", config)];
    for modules in [
        pooling(Value::Null),
        pooling(json!({"pooling_mode": []})),
        pooling(json!({"pooling_mode": vec!["mean"; 1000]})),
        pooling(json!({"pooling_mode_cls_token": "yes"})),
        pooling(json!({"embedding_dimension": -8})),
        pooling(json!({"include_prompt": 1})),
        vec![mean(), ("Dense", Value::Null)],
        vec![mean(), ("Dense", json!({"in_features": 8}))],
        vec![mean(), ("Dense", json!({"in_features": 0, "out_features": 1e30}))],
        vec![mean(), ("Dense", json!({"in_features": 8, "out_features": 4, "activation_function": 7}))],
        vec![mean(), ("LayerNorm", json!({}))],
        vec![("WeightedLayerPooling", Value::Null), mean()],
        vec![("WeightedLayerPooling", json!({"num_hidden_layers": 3})), mean()],
        vec![("WeightedLayerPooling", json!({"layer_start": -1})), mean()],
    ] {
        let error = heads(&modules).unwrap_err();
        assert!(matches!(error, Error::ModelFormat { .. }), "{modules:?}: {error}");
    }
    let folder = model(&[mean()]);
    for listing in
        [json!({}), json!([]), json!([3]), json!([{"path": ""}]), json!([{"type": 1, "path": ""}]), json!("x")]
    {
        list(&folder, &listing);
        let error = read_modules(folder.path()).unwrap_err();
        assert!(matches!(error, Error::ModelFormat { .. }), "{listing}: {error}");
    }
    fs::write(folder.path().join("modules.json"), "[{").unwrap();
    assert!(matches!(read_modules(folder.path()), Err(Error::ModelFormat { .. })));
}

#[test]
fn modules_of_sentence_transformers_that_are_left_out_say_what_to_do() {
    let legacy = [
        "BoW",
        "CLIPModel",
        "CNN",
        "LSTM",
        "LambdaTokenPooling",
        "SparseAutoEncoder",
        "SparseStaticEmbedding",
        "WordEmbeddings",
        "WordWeights",
    ];
    assert_eq!(LEFT_OUT.map(|(name, _)| name), legacy);
    for (name, remedy) in LEFT_OUT {
        let after = model(&[(name, json!({})), mean()]);
        let first = model(&[mean()]);
        let rows = [
            row("0_X", &format!("sentence_transformers.models.{name}")),
            row("1_Pooling", "sentence_transformers.models.Pooling"),
        ];
        list(&first, &json!(rows));
        for folder in [after, first] {
            let error = read_modules(folder.path()).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{name}: {error}");
            assert!(error.to_string().ends_with(&format!("modules.json: module {name}: {remedy}")), "{error}");
        }
    }
}

#[test]
fn layers_are_weighted_where_the_transformer_passes_them_on() {
    let read = |config: Value, output_hidden_states: Value| {
        let folder = model(&[("WeightedLayerPooling", config), mean()]);
        let config = json!({"output_hidden_states": output_hidden_states});
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        read_modules(folder.path())
    };
    let head = |layers, first| Head::WeightedLayerPooling { path: "1_WeightedLayerPooling".into(), layers, first };
    let (older, newer) = (json!({"word_embedding_dimension": 8}), json!({"num_hidden_layers": 3, "layer_start": 0}));
    let modules = read(older.clone(), json!(true)).unwrap();
    assert_eq!(modules.heads[0], head(12, 4));
    assert_eq!(modules.tensor_folders(), ["1_WeightedLayerPooling"]);
    assert_eq!(read(newer, json!(true)).unwrap().heads[0], head(3, 0));
    for without in [json!(false), Value::Null] {
        let modules = read(older.clone(), without).unwrap();
        assert_eq!((&modules.heads[0], modules.tensor_folders()), (&Head::Idle("WeightedLayerPooling"), vec![]));
    }
    let error = read(older, json!([1, 2])).unwrap_err();
    assert!(error.to_string().contains("config.json: output_hidden_states [1,2]: only true and false"), "{error}");
}
