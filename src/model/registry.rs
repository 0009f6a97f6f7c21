//! Maps `model_type` of config.json to an architecture.

use std::path::Path;

use serde_json::{Map, Value};

pub use super::arch::{ARCHITECTURES, Architecture, HEADS};
use super::arch::{OWN_MODULES, REFUSED, ReadHead, read_quantization};
use super::fields::{Fields, unsupported};
use super::spec::{EncoderSpec, NameRules};
use super::task_head::{Task, TaskHead};
use crate::Result;
use crate::text::tokenizer::OwnTokenizer;

/// The specification of the model of a [`model_type`] with configuration `config`, read from `path`.
///
/// # Errors
/// `Unsupported` for an unknown `model_type`, listing the known ones; `ModelFormat` for missing or invalid values.
pub fn read_spec(model_type: &str, config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    let Some(architecture) = ARCHITECTURES.iter().find(|row| row.model_type == model_type) else {
        let known: Vec<&str> = ARCHITECTURES.iter().map(|row| row.model_type).collect();
        let refused = REFUSED.iter().find(|(name, _)| *name == model_type);
        let reason = refused.map_or_else(|| format!("known are {}", known.join(", ")), |(_, reason)| (*reason).into());
        return Err(unsupported(path, format!("model_type {model_type:?}"), reason));
    };
    let (mut spec, rules) = architecture.read(config, path)?;
    read_quantization(config, path, &mut spec, &rules)?;
    Ok((spec, rules))
}

/// The head for a task of a checkpoint of this [`model_type`], whose encoder is `spec`.
///
/// # Errors
/// `Unsupported` for an architecture without such a head here, listing those with one; `ModelFormat` for invalid values.
pub fn read_head(
    task: Task,
    model_type: &str,
    config: &Map<String, Value>,
    path: &Path,
    spec: &EncoderSpec,
) -> Result<TaskHead> {
    let readers = HEADS.iter().filter_map(|row| {
        let reader: Option<ReadHead> = match task {
            Task::Scores => Some(row.scores),
            Task::Words => row.words,
            Task::NextWord => row.next_word,
        };
        Some((row.model_type, reader?))
    });
    let readers: Vec<(&str, ReadHead)> = readers.collect();
    let Some((_, read)) = readers.iter().find(|(known, _)| *known == model_type) else {
        let known: Vec<&str> = readers.iter().map(|(known, _)| *known).collect();
        let what = match task {
            Task::Scores => "scores of a sequence",
            Task::Words => "logits of words",
            Task::NextWord => "logits of the next word",
        };
        let reason = format!("heads for {what} are known of {}", known.join(", "));
        return Err(unsupported(path, format!("model_type {model_type:?}"), reason));
    };
    let kind = match task {
        Task::Scores => "AutoModelForSequenceClassification",
        Task::Words => "AutoModelForMaskedLM",
        Task::NextWord => "AutoModelForCausalLM",
    };
    for row in ARCHITECTURES.iter().filter(|row| row.model_type == model_type) {
        row.check_head(config, path, kind)?;
    }
    let mut fields = Fields::new(config, path);
    let head = read(&mut fields, spec)?;
    fields.done().map(|()| head)
}

/// `model_type` of a configuration, or its equivalent from `architectures` if missing.
///
/// # Errors
/// `ModelFormat` when neither identifies an architecture.
pub fn model_type<'a>(config: &'a Map<String, Value>, path: &Path) -> Result<&'a str> {
    let mut fields = Fields::new(config, path);
    let stated = fields.text("model_type");
    let class = config.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
    let of_class = |row: &&Architecture| class.is_some_and(|class| row.has_class(class));
    let found = stated.or_else(|| Some(ARCHITECTURES.iter().find(of_class)?.model_type));
    if found.is_none() {
        fields.fault("model_type is missing".into());
    }
    fields.done()?;
    Ok(found.unwrap_or_default())
}

/// The class of a `model_type`'s tokenizer; `None` if the reference has none for it.
pub fn tokenizer(model_type: &str) -> Option<OwnTokenizer> {
    ARCHITECTURES.iter().find(|row| row.model_type == model_type)?.tokenizer
}

/// The class of a module, if it is one that an architecture's own code has; a class of another repository has that
/// one's name before it.
pub fn own_module(class: &str) -> Option<&'static str> {
    let class = class.rsplit("--").next()?;
    OWN_MODULES.iter().copied().find(|known| *known == class)
}

/// Whether a tensor of this name is one by which the checkpoints of an architecture are known, prefixes of the `own` one apart.
pub fn is_marked(name: &str, own: &[String]) -> bool {
    let mut marks = ARCHITECTURES.iter().flat_map(|row| row.marks);
    marks.any(|mark| name.starts_with(mark) && !own.iter().any(|prefix| prefix == mark))
}

/// The message for a checkpoint that does not fit `model_type` but has the tensor names of another architecture.
pub fn other_architecture<'a>(names: impl Iterator<Item = &'a str>, model_type: &str) -> Option<String> {
    let names: Vec<&str> = names.collect();
    let marked = |row: &&Architecture| row.marks.iter().any(|mark| names.iter().any(|name| name.starts_with(mark)));
    let found: Vec<&str> = ARCHITECTURES.iter().filter(marked).map(|row| row.model_type).collect();
    if found.is_empty() || found.contains(&model_type) {
        return None;
    }
    Some(format!(
        "these are tensors of {}, and model_type in config.json is {model_type:?}: correct it, or fetch the weights anew",
        found.join(" or ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn read(text: &str) -> Result<(EncoderSpec, NameRules)> {
        let (config, path) = (serde_json::from_str(text).unwrap(), Path::new("config.json"));
        read_spec(model_type(&config, path)?, &config, path)
    }

    const SIZES: &str = r#""hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
        "vocab_size": 30, "max_position_embeddings": 12"#;

    #[test]
    fn the_class_stands_in_for_a_missing_model_type() {
        let with = |more: &str| read(&format!("{{{SIZES}, {more}}}"));
        let bert = with(r#""model_type": "bert""#).unwrap().0;
        assert_eq!(with(r#""architectures": ["BertForMaskedLM"]"#).unwrap().0, bert);
        let roberta = with(r#""architectures": ["XLMRobertaModel"]"#).unwrap().0;
        assert_eq!(with(r#""model_type": "xlm-roberta""#).unwrap().0, roberta);
        assert_ne!(roberta, bert);
        for vague in
            [r#""architectures": ["BertGenerationEncoder"]"#, r#""architectures": []"#, r#""model_type": null"#]
        {
            assert!(with(vague).unwrap_err().to_string().contains("model_type is missing"), "{vague}");
        }
        assert!(matches!(with(r#""model_type": 3"#), Err(Error::ModelFormat { .. })));
    }

    #[test]
    fn an_unknown_model_type_names_the_known_ones() {
        let error = read(r#"{"model_type": "mamba"}"#).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }));
        let known: Vec<&str> = ARCHITECTURES.iter().map(|row| row.model_type).collect();
        assert!(known.is_sorted());
        let expected = format!("config.json: model_type \"mamba\": known are {}", known.join(", "));
        assert_eq!(error.to_string(), expected);
        for (model_type, reason) in REFUSED {
            let error = read(&format!(r#"{{"model_type": "{model_type}"}}"#)).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }) && !known.contains(model_type));
            assert_eq!(error.to_string(), format!("config.json: model_type {model_type:?}: {reason}"));
        }
    }
}
