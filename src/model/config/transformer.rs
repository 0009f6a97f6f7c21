//! The settings of the Transformer module.

use std::path::Path;

use serde_json::{Map, Value};

use super::{Expansion, LONGEST_TEXT, SentenceConfig};
use crate::model::arguments::Arguments;
use crate::model::fields::{Fields, shown, unsupported};
use crate::model::files::transformer_settings;
use crate::model::heads::Modules;
use crate::text::chat::Form;
use crate::{Error, Result};

/// The settings of sentence-transformers' Transformer that are read here or elsewhere, or change nothing.
const KNOWN: [&str; 13] = [
    "model_args",
    "model_kwargs",
    "tokenizer_args",
    "processor_kwargs",
    "config_args",
    "config_kwargs",
    "transformer_task",
    "module_output_name",
    "query_expansion",
    "unpad_inputs",
    "cache_dir",
    "backend",
    "init_defaults",
];

/// How texts become messages of the tokenizer's chat template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Messages {
    /// They do not.
    #[default]
    Never,
    /// They do if there is a template, in the form which that takes.
    WithTemplate,
    /// They do, in this form, or in that which the template takes.
    Always(Option<Form>),
}

/// How the tokenizer is called: `processing_kwargs`.
#[derive(Debug, Clone, PartialEq)]
pub struct Processing {
    /// Whether texts are truncated.
    pub truncates: bool,
    /// The limit of tokens, which replaces all others.
    pub max_length: Option<usize>,
    /// Whether special tokens are put around a text.
    pub special_tokens: bool,
    /// The arguments of the chat template.
    pub template: Map<String, Value>,
}

impl Default for Processing {
    fn default() -> Self {
        Processing { truncates: true, max_length: None, special_tokens: true, template: Map::new() }
    }
}

/// Reads the settings, but for the task, whose reader is that of the modules, and the arguments.
pub(super) fn read(
    transformer: &Path,
    modules: &Modules,
    arguments: &Arguments,
    config: &mut SentenceConfig,
) -> Result<()> {
    config.default_task = arguments.model.get("default_task").and_then(Value::as_str).map(str::to_owned);
    let Some((path, values)) = transformer_settings(transformer)? else { return Ok(()) };
    let mut fields = Fields::new(&values, &path);
    config.max_seq_length = fields.optional_size("max_seq_length", 1..=LONGEST_TEXT);
    for (place, key) in ["query_length", "document_length"].into_iter().enumerate() {
        config.task_lengths[place] = fields.optional_size(key, 1..=LONGEST_TEXT).or(config.task_lengths[place]);
    }
    if fields.is_null("query_expansion") || fields.get("query_expansion").is_some() {
        config.expansion = fields.within("query_expansion", Expansion::read);
    }
    if let (Some(most), Some(Expansion { length, .. })) = (config.task_lengths[0], &config.expansion)
        && most < *length
    {
        let problem = format!("query_length is {most}, less than length {length} of query_expansion: leave it out");
        fields.fault(problem);
    }
    config.do_lower_case = fields.flag_or("do_lower_case", false);
    if let Some(modalities) = fields.object("modality_config") {
        config.messages = read_messages(modalities, &path)?;
    }
    if let Some(given) = fields.object("processing_kwargs") {
        // What is said of all modalities counts before what is said of texts.
        let parts = ["text", "common", "chat_template"];
        let read = if config.messages == Messages::Never { &parts[..2] } else { &parts[..] };
        config.processing = read_processing(given, read, &path)?;
    }
    for key in KNOWN {
        fields.get(key);
    }
    // A module of a repository's own code has settings of its own.
    if modules.own_class.is_none() {
        for key in fields.unread() {
            let problem = format!("{key} is not a setting of a Transformer; sentence-transformers fails for it, too");
            fields.fault(problem);
        }
    }
    fields.done()
}

fn read_messages(modalities: &Map<String, Value>, path: &Path) -> Result<Messages> {
    let Some(message) = modalities.get("message") else { return Ok(Messages::Never) };
    match message.get("format").unwrap_or(&Value::Null) {
        Value::Null => Ok(Messages::Always(None)),
        Value::String(name) if name == "auto" => Ok(Messages::Always(None)),
        Value::String(name) if name == "flat" => Ok(Messages::Always(Some(Form::Flat))),
        Value::String(name) if name == "structured" => Ok(Messages::Always(Some(Form::Structured))),
        other => {
            let what = format!("modality_config: message: format {}", shown(other));
            Err(unsupported(path, what, "known are \"auto\", \"flat\" and \"structured\""))
        }
    }
}

/// Arguments of the tokenizer's call that change no number: all texts are computed without padding.
const WITHOUT_EFFECT: [&str; 6] =
    ["padding", "padding_side", "pad_to_multiple_of", "return_tensors", "logits_to_keep", "verbose"];

fn read_processing(given: &Map<String, Value>, parts: &[&str], path: &Path) -> Result<Processing> {
    let mut processing = Processing::default();
    for part in parts {
        let values = match given.get(*part) {
            None | Some(Value::Null) => continue,
            Some(Value::Object(values)) => values,
            Some(other) => {
                let problem = format!("processing_kwargs: {part} is {}, expected an object", shown(other));
                return Err(Error::format(path, problem));
            }
        };
        for (key, value) in values {
            read_call(&mut processing, part, key, value, path)?;
        }
    }
    Ok(processing)
}

/// Reads one argument of the tokenizer's call.
fn read_call(processing: &mut Processing, part: &str, key: &str, value: &Value, path: &Path) -> Result<()> {
    let what = || format!("processing_kwargs: {part}: {key} {}", shown(value));
    let refuse = |reason: &str| Err(unsupported(path, what(), reason));
    match (key, value) {
        ("truncation", Value::Bool(truncates)) => processing.truncates = *truncates,
        ("truncation", Value::String(name)) if name == "longest_first" => processing.truncates = true,
        ("truncation", Value::String(name)) if name == "do_not_truncate" => processing.truncates = false,
        ("truncation", _) => return refuse("known are true, false, \"longest_first\" and \"do_not_truncate\""),
        ("max_length", Value::Null) => processing.max_length = None,
        ("max_length", _) => match value.as_u64().filter(|most| (1..=LONGEST_TEXT as u64).contains(most)) {
            Some(most) => processing.max_length = Some(most as usize),
            None => return Err(Error::format(path, format!("{}, expected a number of tokens", what()))),
        },
        ("add_special_tokens", Value::Bool(special)) if part != "chat_template" => processing.special_tokens = *special,
        (key, _) if WITHOUT_EFFECT.contains(&key) => {
            log::debug!(target: "grilly", "{}: {} changes nothing", path.display(), what());
        }
        ("continue_final_message" | "sanitize_control_tokens", Value::Null | Value::Bool(false)) => {}
        (
            "continue_final_message"
            | "sanitize_control_tokens"
            | "tokenize"
            | "return_dict"
            | "tokenizer_kwargs"
            | "return_assistant_tokens_mask"
            | "conversation",
            _,
        ) => {
            return refuse("it is not known here: leave it out");
        }
        (key, value) if part == "chat_template" => drop(processing.template.insert(key.to_owned(), value.clone())),
        _ => return refuse("known are padding, truncation, max_length and add_special_tokens"),
    }
    Ok(())
}
