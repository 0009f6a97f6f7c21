//! The heads that checkpoints have for other tasks than embeddings.

mod last_token;

use super::config::MOST_ROWS;
use crate::Result;
use crate::model::fields::{Fields, unsupported};
use crate::model::spec::EncoderSpec;
use crate::model::task_head::{HeadStep, Task, TaskHead};
use crate::ops::ActivationKind::{self, GeluErf, Relu, Tanh};
use crate::ops::PoolMode;
use last_token::{next_word, scores_of_last};

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
    /// Logits of the word after a text: `...ForCausalLM`.
    pub next_word: Option<ReadHead>,
}

const fn row(model_type: &'static str, scores: ReadHead, words: Option<ReadHead>) -> Heads {
    Heads { model_type, scores, words, next_word: None }
}

/// A decoder, both of whose heads read the last token.
const fn decoder(model_type: &'static str, scores: ReadHead, next_word: ReadHead) -> Heads {
    Heads { model_type, scores, words: None, next_word: Some(next_word) }
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
    decoder(
        "gemma2",
        |fields, spec| scores_of_last(fields, spec, Some(0)),
        |fields, spec| next_word(fields, spec, true, Some(30.0)),
    ),
    row("gte", BERT_SCORES, None),
    row("jina_embeddings_v3", ROBERTA_SCORES, None),
    decoder("llama", LLAMA_SCORES, LLAMA_NEXT_WORD),
    decoder("mistral", LLAMA_SCORES, LLAMA_NEXT_WORD),
    row("mobilebert", mobilebert_scores, None),
    row("modernbert", modernbert_scores, Some(modernbert_words)),
    row("mpnet", ROBERTA_SCORES, Some(ROBERTA_WORDS)),
    row("new", BERT_SCORES, None),
    row("nomic_bert", BERT_SCORES, None),
    decoder("qwen2", LLAMA_SCORES, LLAMA_NEXT_WORD),
    decoder("qwen3", LLAMA_SCORES, LLAMA_NEXT_WORD),
    row("roberta", ROBERTA_SCORES, Some(ROBERTA_WORDS)),
    row("roformer", |fields, spec| of_first(fields, spec, ROBERTA, spec.activation), Some(BERT_WORDS)),
    row("squeezebert", BERT_SCORES, Some(BERT_WORDS)),
    row("xlm-roberta", ROBERTA_SCORES, Some(ROBERTA_WORDS)),
    row("xmod", ROBERTA_SCORES, Some(ROBERTA_WORDS)),
];

/// The two products of RoBERTa's classifier.
const ROBERTA: [&str; 2] = ["classifier.dense", "classifier.out_proj"];
const BERT_SCORES: ReadHead = |fields, spec| of_first(fields, spec, ["pooler.dense", "classifier"], Tanh);
const ROBERTA_SCORES: ReadHead = |fields, spec| of_first(fields, spec, ROBERTA, Tanh);
const LLAMA_SCORES: ReadHead = |fields, spec| scores_of_last(fields, spec, None);
const LLAMA_NEXT_WORD: ReadHead = |fields, spec| next_word(fields, spec, false, None);
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
    Ok(TaskHead::of(Task::Scores, steps))
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
    Ok(TaskHead::of(Task::Scores, steps))
}

/// The first token's vector, or two products of it as BERT's.
fn mobilebert_scores(fields: &mut Fields<'_>, spec: &EncoderSpec) -> Result<TaskHead> {
    let mut head = BERT_SCORES(fields, spec)?;
    if !fields.flag_or("classifier_activation", true) {
        head.steps.drain(1..3);
    }
    Ok(head)
}

fn modernbert_scores(fields: &mut Fields<'_>, spec: &EncoderSpec) -> Result<TaskHead> {
    let mode = fields.choice(POOLING, "cls", &[("cls", PoolMode::Cls), ("mean", PoolMode::Mean)])?;
    let mut steps = vec![HeadStep::Pool(mode)];
    steps.extend(modernbert_transform(fields, spec)?);
    steps.push(HeadStep::linear("classifier", labels(fields)));
    Ok(TaskHead::of(Task::Scores, steps))
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
    TaskHead { tied, ..TaskHead::of(Task::Words, steps) }
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
mod tests;
