//! The heads that checkpoints have for other tasks than embeddings.

use super::config::MOST_ROWS;
use crate::Result;
use crate::model::fields::{Fields, unsupported};
use crate::model::spec::EncoderSpec;
use crate::model::task_head::{HeadStep, Task, TaskHead};
use crate::ops::ActivationKind::{self, GeluErf, Relu, Tanh};
use crate::ops::PoolMode;

/// The key of how the tokens of a sequence become one vector.
const POOLING: &str = "classifier_pooling";

/// Reads a head's keys of config.json, for the encoder of a specification.
pub type ReadHead = fn(&mut Fields<'_>, &EncoderSpec) -> Result<TaskHead>;

/// A row of [`HEADS`].
pub struct Heads {
    /// The architecture.
    pub model_type: &'static str,
    /// Scores of a sequence: `...ForSequenceClassification` in transformers.
    pub scores: ReadHead,
    /// Logits of words: `...ForMaskedLM`.
    pub words: Option<ReadHead>,
}

const fn row(model_type: &'static str, scores: ReadHead, words: Option<ReadHead>) -> Heads {
    Heads { model_type, scores, words }
}

/// The architectures whose heads are known.
pub const HEADS: &[Heads] = &[
    row("albert", |fields, spec| of_first(fields, spec, ["pooler", "classifier"], Tanh), Some(ALBERT_WORDS)),
    row("bert", BERT_SCORES, Some(BERT_WORDS)),
    row("camembert", ROBERTA_SCORES, Some(ROBERTA_WORDS)),
    row("deberta", deberta_scores, None),
    row("deberta-v2", deberta_scores, None),
    row("distilbert", DISTILBERT_SCORES, Some(DISTILBERT_WORDS)),
    row("electra", |fields, spec| of_first(fields, spec, ROBERTA, GeluErf), Some(ELECTRA_WORDS)),
    row("ernie", BERT_SCORES, Some(BERT_WORDS)),
    row("eurobert", eurobert_scores, None),
    row("gte", BERT_SCORES, None),
    row("jina_embeddings_v3", ROBERTA_SCORES, None),
    row("modernbert", modernbert_scores, Some(modernbert_words)),
    row("mpnet", ROBERTA_SCORES, Some(ROBERTA_WORDS)),
    row("new", BERT_SCORES, None),
    row("nomic_bert", BERT_SCORES, None),
    row("roberta", ROBERTA_SCORES, Some(ROBERTA_WORDS)),
    row("squeezebert", BERT_SCORES, Some(BERT_WORDS)),
    row("xlm-roberta", ROBERTA_SCORES, Some(ROBERTA_WORDS)),
    row("xmod", ROBERTA_SCORES, Some(ROBERTA_WORDS)),
];

/// The two products of RoBERTa's classifier.
const ROBERTA: [&str; 2] = ["classifier.dense", "classifier.out_proj"];
const BERT_SCORES: ReadHead = |fields, spec| of_first(fields, spec, ["pooler.dense", "classifier"], Tanh);
const ROBERTA_SCORES: ReadHead = |fields, spec| of_first(fields, spec, ROBERTA, Tanh);
const DISTILBERT_SCORES: ReadHead = |fields, spec| of_first(fields, spec, ["pre_classifier", "classifier"], Relu);

const BERT_WORDS: ReadHead = |fields, spec| {
    let transform = ["cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"];
    Ok(transformed(fields, spec, (transform, spec.activation), ["cls.predictions.decoder", "cls.predictions.bias"]))
};
const ROBERTA_WORDS: ReadHead = |fields, spec| {
    let transform = (["lm_head.dense", "lm_head.layer_norm"], GeluErf);
    Ok(transformed(fields, spec, transform, ["lm_head.decoder", "lm_head.bias"]))
};
const ALBERT_WORDS: ReadHead = |fields, spec| {
    let transform = (["predictions.dense", "predictions.LayerNorm"], spec.activation);
    Ok(transformed(fields, spec, transform, ["predictions.decoder", "predictions.bias"]))
};
const DISTILBERT_WORDS: ReadHead = |fields, spec| {
    Ok(transformed(fields, spec, (["vocab_transform", "vocab_layer_norm"], spec.activation), ["vocab_projector", ""]))
};
const ELECTRA_WORDS: ReadHead = |fields, spec| {
    let transform = (["generator_predictions.dense", "generator_predictions.LayerNorm"], GeluErf);
    Ok(transformed(fields, spec, transform, ["generator_lm_head", ""]))
};

/// The number of labels: of `id2label`, or else `num_labels`, or else 2, as in transformers.
fn labels(fields: &mut Fields<'_>) -> usize {
    let named = fields.object("id2label").map(serde_json::Map::len);
    if named == Some(0) {
        fields.fault("id2label is empty, expected a name for each label".into());
    }
    let stated = fields.optional_size("num_labels", 1..=MOST_ROWS);
    named.or(stated).unwrap_or(2).max(1)
}

fn activation(fields: &mut Fields<'_>, key: &str) -> Result<ActivationKind> {
    let name = fields.text(key).unwrap_or("gelu");
    let unknown = || unsupported(fields.path(), format_args!("{key} {name:?}"), "no activation of this name is known");
    ActivationKind::from_config_name(name).ok_or_else(unknown)
}

/// Two products of the first token's vector, with an activation in between.
fn of_first(
    fields: &mut Fields<'_>,
    spec: &EncoderSpec,
    [first, last]: [&str; 2],
    activation: ActivationKind,
) -> Result<TaskHead> {
    let steps = vec![
        HeadStep::Pool(PoolMode::Cls),
        HeadStep::linear(first, spec.hidden),
        HeadStep::Activation(activation),
        HeadStep::linear(last, labels(fields)),
    ];
    Ok(TaskHead::scores(steps))
}

fn deberta_scores(fields: &mut Fields<'_>, spec: &EncoderSpec) -> Result<TaskHead> {
    let activation = activation(fields, "pooler_hidden_act")?;
    of_first(fields, spec, ["pooler.dense", "classifier"], activation)
}

/// Pooled before the products, or, `late`, after them.
fn eurobert_scores(fields: &mut Fields<'_>, spec: &EncoderSpec) -> Result<TaskHead> {
    let known = [("bos", (0, PoolMode::Cls)), ("mean", (0, PoolMode::Mean)), ("late", (3, PoolMode::Mean))];
    let (place, mode) = fields.choice(POOLING, "late", &known)?;
    let mut steps = vec![
        HeadStep::linear("dense", spec.hidden),
        HeadStep::Activation(GeluErf),
        HeadStep::linear("classifier", labels(fields)),
    ];
    steps.insert(place, HeadStep::Pool(mode));
    Ok(TaskHead::scores(steps))
}

fn modernbert_scores(fields: &mut Fields<'_>, spec: &EncoderSpec) -> Result<TaskHead> {
    let mode = fields.choice(POOLING, "cls", &[("cls", PoolMode::Cls), ("mean", PoolMode::Mean)])?;
    let mut steps = vec![HeadStep::Pool(mode)];
    steps.extend(modernbert_transform(fields, spec)?);
    steps.push(HeadStep::linear("classifier", labels(fields)));
    Ok(TaskHead::scores(steps))
}

fn modernbert_transform(fields: &mut Fields<'_>, spec: &EncoderSpec) -> Result<[HeadStep; 3]> {
    let bias = fields.flag_or("classifier_bias", false);
    Ok([
        HeadStep::Linear { name: "head.dense".into(), bias, columns: spec.hidden },
        HeadStep::Activation(activation(fields, "classifier_activation")?),
        HeadStep::Norm { name: "head.norm".into(), kind: spec.norm, eps: spec.norm_eps },
    ])
}

/// Logits of words: `steps`, then a product with a matrix that is usually the table of the embeddings. `bias` is another
/// name of the product's bias.
fn of_words(
    fields: &mut Fields<'_>,
    spec: &EncoderSpec,
    mut steps: Vec<HeadStep>,
    decoder: HeadStep,
    bias: &str,
) -> TaskHead {
    let mut tied = Vec::new();
    if let HeadStep::Linear { name, .. } = &decoder {
        let pair = |end: &str, other: &str| [format!("{name}.{end}"), other.to_owned()];
        tied.extend(fields.flag_or("tie_word_embeddings", true).then(|| pair("weight", &spec.words.name)));
        tied.extend((!bias.is_empty()).then(|| pair("bias", bias)));
    }
    steps.push(decoder);
    TaskHead { task: Task::Words, steps, tied }
}

/// Logits of words after a product, an activation and a norm; the last product has its bias under another name, too, unless that
/// is empty.
fn transformed(
    fields: &mut Fields<'_>,
    spec: &EncoderSpec,
    ([dense, norm], activation): ([&str; 2], ActivationKind),
    [decoder, bias]: [&str; 2],
) -> TaskHead {
    let steps = vec![
        HeadStep::linear(dense, spec.embedding),
        HeadStep::Activation(activation),
        HeadStep::norm(norm, spec.norm_eps),
    ];
    of_words(fields, spec, steps, HeadStep::linear(decoder, spec.words.rows), bias)
}

fn modernbert_words(fields: &mut Fields<'_>, spec: &EncoderSpec) -> Result<TaskHead> {
    let steps = modernbert_transform(fields, spec)?.into();
    let bias = fields.flag_or("decoder_bias", true);
    let decoder = HeadStep::Linear { name: "decoder".into(), bias, columns: spec.words.rows };
    Ok(of_words(fields, spec, steps, decoder, ""))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::Error;
    use crate::model::registry::{read_head, read_spec};
    use crate::model::spec::NormKind;

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
        assert_eq!(
            steps[1..3],
            [HeadStep::Activation(ActivationKind::Relu), HeadStep::norm("vocab_layer_norm", 1e-12)]
        );
    }

    #[test]
    fn architectures_without_a_head_name_those_with_one() {
        for (task, what) in [(Task::Scores, "scores of a sequence"), (Task::Words, "logits of words")] {
            let error = head(task, "gpt2", json!({})).unwrap_err().to_string();
            let start = format!("config.json: model_type \"gpt2\": heads for {what} are known of albert, bert,");
            assert!(error.starts_with(&start), "{error}");
        }
        assert!(head(Task::Words, "gte", json!({})).is_err() && head(Task::Scores, "gte", json!({})).is_ok());
    }
}
