use std::fs;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::model::spec::NameRules;

/// A safetensors file with one number per tensor.
fn checkpoint(tensors: &[(&str, &str, usize)]) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, dtype, size) in tensors {
        let begin = data.len();
        data.resize(begin + size, 0u8);
        header.insert((*name).into(), json!({"dtype": dtype, "shape": [1], "data_offsets": [begin, data.len()]}));
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// The type of a model with this config.json, Transformer settings and checkpoint.
fn found(choice: DTypeChoice, config: Value, settings: Value, tensors: &[(&str, &str, usize)]) -> Result<DType> {
    let settings = ("sentence_bert_config.json", settings.to_string().into_bytes());
    let folder = folder(&[("model.safetensors", checkpoint(tensors)), settings]);
    let rules = NameRules::default();
    let weights = Weights::open(folder.path(), "", &[], &rules).unwrap();
    let config = config.as_object().unwrap();
    Sources { settings: Some(folder.path()), config, path: "config.json".as_ref(), weights: &weights }.dtype(choice)
}

const HALF: &[(&str, &str, usize)] = &[("a", "F16", 2)];

#[test]
fn configuration_before_checkpoint() {
    use DTypeChoice::{Auto, Default, Given, Integers, Model};
    let of = |choice, config: Value, settings| found(choice, config, settings, HALF).unwrap();
    let bf16 = || json!({"dtype": "bfloat16"});
    assert_eq!(of(Given(DType::F32), bf16(), json!({})), DType::F32);
    assert_eq!(of(Default(DType::F32), bf16(), json!({})), DType::F32);
    for (choice, of_integers) in
        [(Auto, Integers), (Model, Integers), (Default(DType::F32), Integers), (Integers, Integers)]
    {
        assert_eq!((choice.of_model(true), choice.of_model(false)), (of_integers, choice));
    }
    assert_eq!(Given(DType::F32).of_model(true), Given(DType::F32));
    assert_eq!(of(Integers, bf16(), json!({})), DType::Bf16);
    assert_eq!(of(Integers, json!({"dtype": "float32"}), json!({})), DType::F16);
    assert_eq!(of(Auto, bf16(), json!({})), DType::Bf16);
    assert_eq!(of(Auto, json!({"torch_dtype": "bfloat16"}), json!({})), DType::Bf16);
    assert_eq!(of(Auto, json!({"dtype": "float32", "torch_dtype": "bfloat16"}), json!({})), DType::F32);
    assert_eq!(of(Auto, json!({"dtype": null, "torch_dtype": "half"}), json!({})), DType::F16);
    assert_eq!(of(Auto, json!({"dtype": {"": "bfloat16", "text_config": "float16"}}), json!({})), DType::Bf16);
    assert_eq!(of(Auto, json!({"dtype": {"text_config": "float16"}}), json!({})), DType::F32);
    assert_eq!(of(Auto, json!({}), json!({})), DType::F16);
    let settings = || json!({"model_args": {"torch_dtype": "float32"}, "model_kwargs": {"dtype": "float16"}});
    assert_eq!(of(Model, bf16(), settings()), DType::F32);
    assert_eq!(of(Auto, bf16(), settings()), DType::Bf16);
    assert_eq!(of(Model, bf16(), json!({"model_kwargs": {"dtype": "auto"}})), DType::Bf16);
}

#[test]
fn the_first_floating_point_tensor_by_name() {
    let of = |tensors: &[(&str, &str, usize)]| found(DTypeChoice::Auto, json!({}), json!({}), tensors).unwrap();
    assert_eq!(of(&[("b", "F32", 4), ("a", "BF16", 2), ("c", "F16", 2)]), DType::Bf16);
    assert_eq!(of(&[("a", "I64", 8), ("b", "F8_E4M3", 1), ("c", "F16", 2)]), DType::F16);
}

#[test]
fn types_that_are_only_stored_are_computed_in_float32() {
    let of =
        |config: Value, tensors: &[(&str, &str, usize)]| found(DTypeChoice::Auto, config, json!({}), tensors).unwrap();
    for tensors in [&[("a", "F64", 8), ("b", "F16", 2)][..], &[("a", "I64", 8), ("b", "F8_E5M2", 1)]] {
        assert_eq!(of(json!({}), tensors), DType::F32);
    }
    for name in ["float64", "double", "float8_e4m3fn", "float8_e5m2"] {
        assert_eq!(of(json!({"torch_dtype": name}), HALF), DType::F32, "{name}");
    }
    assert_eq!(of(json!({"dtype": "bfloat16"}), &[("a", "F64", 8)]), DType::Bf16);
}

#[test]
fn the_index_says_it_first() {
    let index = |metadata: Value| json!({"metadata": metadata, "weight_map": {"a": "2", "b": "1"}}).to_string();
    let of = |metadata| {
        let folder = folder(&[
            ("model.safetensors.index.json", index(metadata).into_bytes()),
            ("1", checkpoint(&[("b", "BF16", 2)])),
            ("2", checkpoint(&[("a", "F32", 4)])),
        ]);
        let rules = NameRules::default();
        let weights = Weights::open(folder.path(), "", &[], &rules).unwrap();
        let sources = Sources { settings: None, config: &Map::new(), path: "config.json".as_ref(), weights: &weights };
        sources.dtype(DTypeChoice::Model).unwrap()
    };
    assert_eq!(of(json!({"dtype": "float16"})), DType::F16);
    assert_eq!(of(json!({"total_size": 6})), DType::Bf16);
}

#[test]
fn other_types_are_refused() {
    let refusal = |config, tensors| found(DTypeChoice::Auto, config, json!({}), tensors).unwrap_err();
    let error = refusal(json!({"dtype": "float8_e4m3fnuz"}), HALF);
    assert!(matches!(error, Error::Unsupported { .. }));
    assert!(error.to_string().starts_with("config.json: dtype \"float8_e4m3fnuz\": known are float32"), "{error}");
    let error = refusal(json!({"torch_dtype": 16}), HALF);
    assert!(matches!(error, Error::ModelFormat { .. }), "{error}");
    let error = refusal(json!({}), &[("a", "I64", 8)]);
    assert!(error.to_string().contains("model.safetensors: the type of a \"I64\""), "{error}");
}

#[test]
fn choices_have_names() {
    let known = ["auto", "int8", "bfloat16"].map(|name| name.parse::<DTypeChoice>().unwrap());
    assert_eq!(known, [DTypeChoice::Auto, DTypeChoice::Integers, DTypeChoice::Given(DType::Bf16)]);
    let wrong = "int4".parse::<DTypeChoice>().unwrap_err().to_string();
    assert!(wrong.contains("dtype is \"int4\""), "{wrong}");
}
