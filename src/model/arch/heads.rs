//! The heads that checkpoints have for other tasks than embeddings.

use std::path::Path;

use super::config::MOST_ROWS;
use crate::Result;
use crate::model::fields::{Fields, unsupported};
use crate::model::spec::EncoderSpec;
use crate::model::task_head::{Step, Task, TaskHead};
use crate::ops::{ActivationKind, PoolMode};

/// Reads a head's keys of config.json, for the encoder of a specification.
pub type ReadHead = fn(&mut Fields<'_>, &Path, &EncoderSpec) -> Result<TaskHead>;

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
    row("albert", albert_scores, Some(albert_words)),
    row("bert", bert_scores, Some(bert_words)),
    row("camembert", roberta_scores, Some(roberta_words)),
    row("deberta-v2", deberta_scores, None),
    row("distilbert", distilbert_scores, Some(distilbert_words)),
    row("electra", electra_scores, Some(electra_words)),
    row("eurobert", eurobert_scores, None),
    row("gte", bert_scores, None),
    row("jina_embeddings_v3", roberta_scores, None),
    row("modernbert", modernbert_scores, Some(modernbert_words)),
    row("mpnet", roberta_scores, Some(roberta_words)),
    row("new", bert_scores, None),
    row("nomic_bert", bert_scores, None),
    row("roberta", roberta_scores, Some(roberta_words)),
    row("xlm-roberta", roberta_scores, Some(roberta_words)),
];

/// The number of labels: of `id2label`, or else `num_labels`, or else 2, as in transformers.
fn labels(fields: &mut Fields<'_>) -> usize {
    let named = fields.object("id2label").map(serde_json::Map::len);
    if named == Some(0) {
        fields.fault("id2label is empty, expected a name for each label".into());
    }
    let stated = fields.optional_size("num_labels", 1..=MOST_ROWS);
    named.or(stated).unwrap_or(2).max(1)
}

fn activation(fields: &mut Fields<'_>, path: &Path, key: &str) -> Result<ActivationKind> {
    let name = fields.text(key).unwrap_or("gelu");
    let unknown = || unsupported(path, format_args!("{key} {name:?}"), "no activation of this name is known");
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
        Step::Pool(PoolMode::Cls),
        Step::linear(first, spec.hidden),
        Step::Activation(activation),
        Step::linear(last, labels(fields)),
    ];
    Ok(TaskHead::scores(steps))
}

fn bert_scores(fields: &mut Fields<'_>, _: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    of_first(fields, spec, ["pooler.dense", "classifier"], ActivationKind::Tanh)
}

fn roberta_scores(fields: &mut Fields<'_>, _: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    of_first(fields, spec, ["classifier.dense", "classifier.out_proj"], ActivationKind::Tanh)
}

fn electra_scores(fields: &mut Fields<'_>, _: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    of_first(fields, spec, ["classifier.dense", "classifier.out_proj"], ActivationKind::GeluErf)
}

fn albert_scores(fields: &mut Fields<'_>, _: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    of_first(fields, spec, ["pooler", "classifier"], ActivationKind::Tanh)
}

fn distilbert_scores(fields: &mut Fields<'_>, _: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    of_first(fields, spec, ["pre_classifier", "classifier"], ActivationKind::Relu)
}

fn deberta_scores(fields: &mut Fields<'_>, path: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    let activation = activation(fields, path, "pooler_hidden_act")?;
    of_first(fields, spec, ["pooler.dense", "classifier"], activation)
}

/// What `classifier_pooling` names; `None` for another name, which is an error.
fn pooling<T>(fields: &mut Fields<'_>, path: &Path, usual: &str, known: &[(&str, T)]) -> Result<T>
where
    T: Copy,
{
    let name = fields.text("classifier_pooling").unwrap_or(usual);
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, pooling)| *pooling);
    found.ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        unsupported(path, format_args!("classifier_pooling {name:?}"), format!("known are {}", known.join(", ")))
    })
}

/// Pooled before the products, or, `late`, after them.
fn eurobert_scores(fields: &mut Fields<'_>, path: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    let known = [("bos", (0, PoolMode::Cls)), ("mean", (0, PoolMode::Mean)), ("late", (3, PoolMode::Mean))];
    let (place, mode) = pooling(fields, path, "late", &known)?;
    let products = [
        Step::linear("dense", spec.hidden),
        Step::Activation(ActivationKind::GeluErf),
        Step::linear("classifier", labels(fields)),
    ];
    let mut steps = products.to_vec();
    steps.insert(place, Step::Pool(mode));
    Ok(TaskHead::scores(steps))
}

fn modernbert_scores(fields: &mut Fields<'_>, path: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    let mode = pooling(fields, path, "cls", &[("cls", PoolMode::Cls), ("mean", PoolMode::Mean)])?;
    let mut steps = vec![Step::Pool(mode)];
    steps.extend(modernbert_transform(fields, path, spec)?);
    steps.push(Step::linear("classifier", labels(fields)));
    Ok(TaskHead::scores(steps))
}

fn modernbert_transform(fields: &mut Fields<'_>, path: &Path, spec: &EncoderSpec) -> Result<[Step; 3]> {
    let bias = fields.flag_or("classifier_bias", false);
    Ok([
        Step::Linear { name: "head.dense".into(), bias, columns: spec.hidden },
        Step::Activation(activation(fields, path, "classifier_activation")?),
        Step::Norm { name: "head.norm".into(), kind: spec.norm, eps: spec.norm_eps },
    ])
}

/// Logits of words: `steps`, then a product with a matrix that is usually the table of the embeddings. `bias` is another
/// name of the product's bias.
fn of_words(fields: &mut Fields<'_>, spec: &EncoderSpec, mut steps: Vec<Step>, decoder: Step, bias: &str) -> TaskHead {
    let mut tied = Vec::new();
    if let Step::Linear { name, .. } = &decoder {
        let pair = |end: &str, other: &str| [format!("{name}.{end}"), other.to_owned()];
        tied.extend(fields.flag_or("tie_word_embeddings", true).then(|| pair("weight", &spec.words.name)));
        tied.extend((!bias.is_empty()).then(|| pair("bias", bias)));
    }
    steps.push(decoder);
    TaskHead { task: Task::Words, steps, tied }
}

fn bert_words(fields: &mut Fields<'_>, _: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    let steps = vec![
        Step::linear("cls.predictions.transform.dense", spec.hidden),
        Step::Activation(spec.activation),
        Step::norm("cls.predictions.transform.LayerNorm", spec.norm_eps),
    ];
    let decoder = Step::linear("cls.predictions.decoder", spec.words.rows);
    Ok(of_words(fields, spec, steps, decoder, "cls.predictions.bias"))
}

fn roberta_words(fields: &mut Fields<'_>, _: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    let steps = vec![
        Step::linear("lm_head.dense", spec.hidden),
        Step::Activation(ActivationKind::GeluErf),
        Step::norm("lm_head.layer_norm", spec.norm_eps),
    ];
    Ok(of_words(fields, spec, steps, Step::linear("lm_head.decoder", spec.words.rows), "lm_head.bias"))
}

fn albert_words(fields: &mut Fields<'_>, _: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    let steps = vec![
        Step::linear("predictions.dense", spec.embedding),
        Step::Activation(spec.activation),
        Step::norm("predictions.LayerNorm", spec.norm_eps),
    ];
    Ok(of_words(fields, spec, steps, Step::linear("predictions.decoder", spec.words.rows), "predictions.bias"))
}

fn distilbert_words(fields: &mut Fields<'_>, _: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    let steps = vec![
        Step::linear("vocab_transform", spec.hidden),
        Step::Activation(spec.activation),
        Step::norm("vocab_layer_norm", spec.norm_eps),
    ];
    Ok(of_words(fields, spec, steps, Step::linear("vocab_projector", spec.words.rows), ""))
}

fn electra_words(fields: &mut Fields<'_>, _: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    let steps = vec![
        Step::linear("generator_predictions.dense", spec.embedding),
        Step::Activation(ActivationKind::GeluErf),
        Step::norm("generator_predictions.LayerNorm", spec.norm_eps),
    ];
    Ok(of_words(fields, spec, steps, Step::linear("generator_lm_head", spec.words.rows), ""))
}

fn modernbert_words(fields: &mut Fields<'_>, path: &Path, spec: &EncoderSpec) -> Result<TaskHead> {
    let steps = modernbert_transform(fields, path, spec)?.into();
    let bias = fields.flag_or("decoder_bias", true);
    let decoder = Step::Linear { name: "decoder".into(), bias, columns: spec.words.rows };
    Ok(of_words(fields, spec, steps, decoder, ""))
}

#[cfg(test)]
mod tests {
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

    fn scores(model_type: &str, changes: Value) -> Result<Vec<Step>> {
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
        assert_eq!(last(json!({})).unwrap(), Step::linear("classifier", 2));
        assert_eq!(last(json!({"num_labels": 5})).unwrap(), Step::linear("classifier", 5));
        let named = json!({"id2label": {"0": "a", "1": "b", "2": "c"}, "num_labels": 5});
        assert_eq!(last(named).unwrap(), Step::linear("classifier", 3));
        for absurd in [json!({"id2label": {}}), json!({"num_labels": 0}), json!({"id2label": ["a"]})] {
            assert!(matches!(last(absurd.clone()), Err(Error::ModelFormat { .. })), "{absurd}");
        }
    }

    #[test]
    fn scores_are_pooled_where_the_configuration_says() {
        let pool = Step::Pool;
        assert_eq!(scores("modernbert", json!({})).unwrap()[0], pool(PoolMode::Cls));
        let mean = scores("modernbert", json!({"classifier_pooling": "mean", "norm_bias": true, "norm_eps": 0.5}));
        let norm = Step::Norm { name: "head.norm".into(), kind: NormKind::Layer, eps: 0.5 };
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
        assert_eq!(steps[1..3], [Step::Activation(ActivationKind::Relu), Step::norm("vocab_layer_norm", 1e-12)]);
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
