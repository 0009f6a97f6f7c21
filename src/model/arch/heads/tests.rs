use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::Error;
use crate::model::registry::{read_head, read_spec};
use crate::model::spec::NormKind;
use crate::model::task_head::Padding;

fn head(task: Task, model_type: &str, changes: Value) -> Result<TaskHead> {
    let sizes = match model_type {
        "distilbert" => json!({"dim": 48, "n_layers": 2, "n_heads": 4, "hidden_dim": 96,
            "activation": "relu", "max_position_embeddings": 66}),
        "gpt2" => json!({"n_embd": 48, "n_layer": 2, "n_head": 4, "n_positions": 66}),
        _ => json!({"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
            "max_position_embeddings": 66}),
    };
    let mut config = json!({"vocab_size": 100});
    let values = config.as_object_mut().unwrap();
    for more in [sizes, changes] {
        values.extend(more.as_object().unwrap().clone());
    }
    let path = Path::new("config.json");
    let spec = read_spec(model_type, values, path).unwrap().0;
    read_head(task, model_type, values, path, &spec)
}

fn scores(model_type: &str, changes: Value) -> Result<Vec<HeadStep>> {
    Ok(head(Task::Scores, model_type, changes)?.steps)
}

#[test]
fn rows_are_sorted_and_known() {
    let names: Vec<&str> = HEADS.iter().map(|row| row.model_type).collect();
    assert!(names.is_sorted());
    let known = |name: &&str| crate::model::registry::ARCHITECTURES.iter().any(|row| row.model_type == *name);
    assert!(names.iter().all(known));
}

#[test]
fn labels_are_counted() {
    let last = |changes: Value| scores("bert", changes).map(|mut steps| steps.pop().unwrap());
    assert_eq!(last(json!({})).unwrap(), HeadStep::linear("classifier", 2));
    assert_eq!(last(json!({"num_labels": 5})).unwrap(), HeadStep::linear("classifier", 5));
    let named = json!({"id2label": {"0": "a", "1": "b", "2": "c"}, "num_labels": 5});
    assert_eq!(last(named).unwrap(), HeadStep::linear("classifier", 3));
    for absurd in [json!({"id2label": {}}), json!({"num_labels": 0}), json!({"id2label": ["a"]})] {
        assert!(matches!(last(absurd.clone()), Err(Error::ModelFormat { .. })), "{absurd}");
    }
}

#[test]
fn scores_are_pooled_where_the_configuration_says() {
    let pool = HeadStep::Pool;
    assert_eq!(scores("modernbert", json!({})).unwrap()[0], pool(PoolMode::Cls));
    let mean = scores("modernbert", json!({"classifier_pooling": "mean", "norm_bias": true, "norm_eps": 0.5}));
    let norm = HeadStep::Norm { name: "head.norm".into(), kind: NormKind::Layer { bias: true }, eps: 0.5 };
    let mean = mean.unwrap();
    assert_eq!((&mean[0], &mean[3]), (&pool(PoolMode::Mean), &norm));
    assert_eq!(scores("eurobert", json!({})).unwrap()[3], pool(PoolMode::Mean));
    assert_eq!(scores("eurobert", json!({"classifier_pooling": "bos"})).unwrap()[0], pool(PoolMode::Cls));
    for (key, model_type) in [("classifier_pooling", "eurobert"), ("pooler_hidden_act", "deberta-v2")] {
        let error = scores(model_type, json!({key: "median"})).unwrap_err().to_string();
        assert!(error.contains(&format!("config.json: {key} \"median\": ")), "{error}");
    }
}

#[test]
fn words_are_tied_unless_the_configuration_says_otherwise() {
    let tied = |changes: Value| head(Task::Words, "bert", changes).unwrap().tied.len();
    assert_eq!([tied(json!({})), tied(json!({"tie_word_embeddings": false}))], [2, 1]);
    let steps = head(Task::Words, "distilbert", json!({})).unwrap().steps;
    assert_eq!(steps[1..3], [HeadStep::Activation(ActivationKind::Relu), HeadStep::norm("vocab_layer_norm", 1e-12)]);
}

#[test]
fn architectures_without_a_head_name_those_with_one() {
    for (task, what) in [(Task::Scores, "scores of a sequence"), (Task::Words, "logits of words")] {
        let error = head(task, "gpt2", json!({})).unwrap_err().to_string();
        let start = format!("config.json: model_type \"gpt2\": heads for {what} are known of albert, bert,");
        assert!(error.starts_with(&start), "{error}");
    }
    let error = head(Task::NextWord, "gpt2", json!({})).unwrap_err().to_string();
    let start =
        "config.json: model_type \"gpt2\": heads for logits of the next word are known of gemma2, llama, mistral,";
    assert!(error.starts_with(start), "{error}");
    assert!(head(Task::Words, "gte", json!({})).is_err() && head(Task::Scores, "gte", json!({})).is_ok());
}

/// What becomes of padding in a head for scores.
fn padding(model_type: &str, changes: Value) -> Padding {
    head(Task::Scores, model_type, changes).unwrap().padding
}

#[test]
fn decoders_score_the_last_token_that_is_no_padding() {
    let steps = scores("qwen3", json!({"num_labels": 1})).unwrap();
    let product = HeadStep::Linear { name: "score".into(), bias: false, columns: 1 };
    assert_eq!(steps, [HeadStep::Pool(PoolMode::LastToken), product]);
    for (model_type, config, expected) in [
        ("llama", json!({}), Padding::Unstated),
        ("llama", json!({"pad_token_id": 7}), Padding::Cut(7)),
        ("llama", json!({"pad_token_id": -1}), Padding::Kept),
        ("gemma2", json!({}), Padding::Cut(0)),
        ("gemma2", json!({"pad_token_id": null}), Padding::Unstated),
        ("gemma2", json!({"pad_token_id": 3}), Padding::Cut(3)),
    ] {
        assert_eq!(padding(model_type, config.clone()), expected, "{model_type} {config}");
    }
    assert!(matches!(scores("qwen2", json!({"pad_token_id": "x"})), Err(Error::ModelFormat { .. })));
    let open = scores("mistral", json!({"is_causal": false})).unwrap_err();
    assert!(matches!(open, Error::Unsupported { .. }) && open.to_string().contains("is_causal false"), "{open}");
}

#[test]
fn logits_of_the_next_word_have_the_bound_and_the_table_of_the_family() {
    let next = |model_type: &str, changes: Value| head(Task::NextWord, model_type, changes).unwrap();
    let product = HeadStep::Linear { name: "lm_head".into(), bias: false, columns: 100 };
    let plain = next("qwen3", json!({}));
    assert_eq!(plain.steps, [HeadStep::Pool(PoolMode::LastToken), product]);
    assert_eq!((plain.tied.len(), next("qwen3", json!({"tie_word_embeddings": true})).tied.len()), (0, 1));
    let bounded = next("gemma2", json!({}));
    assert_eq!((bounded.steps[2].clone(), bounded.tied.len()), (HeadStep::SoftCap(30.0), 1));
    assert_eq!(next("gemma2", json!({"final_logit_softcapping": null})).steps.len(), 2);
    assert_eq!(next("gemma2", json!({"final_logit_softcapping": 2.5})).steps[2], HeadStep::SoftCap(2.5));
    assert!(matches!(
        head(Task::NextWord, "gemma2", json!({"final_logit_softcapping": 0})),
        Err(Error::ModelFormat { .. })
    ));
}
