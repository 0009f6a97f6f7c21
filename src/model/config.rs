//! The JSON configuration files of a model's folder.

mod expansion;
mod pylate;
mod stanford;
mod transformer;

use std::path::Path;

use serde_json::{Map, Value};

use super::arguments::Arguments;
use super::class::{CLASSES, Class, Setting};
use super::fields::{Fields, shown};
use super::files::MODEL_SETTINGS;
use super::files::{Ordered, read_as, read_fields};
pub use super::files::{SETTINGS_FILES, read_json};
use super::heads::{Feature, First, Modules};
use crate::Result;
pub use expansion::Expansion;
pub use transformer::{Messages, Processing};

/// Upper bound on the tokens of a text; tokenizers without a limit state 1e30.
const LONGEST_TEXT: usize = i32::MAX as usize;
/// `config_sentence_transformers.json` and `sentence_bert_config.json`, with their defaults filled in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SentenceConfig {
    /// Prompts by name: `query` and `document` (empty if missing in the file), then the file's others in its order.
    pub prompts: Vec<(String, String)>,
    /// Name of the prompt used by default.
    pub default_prompt_name: Option<String>,
    /// One of the class' similarities.
    pub similarity_fn_name: Option<String>,
    /// The model's own limit of tokens per text; the position table may limit it further.
    pub max_seq_length: Option<usize>,
    /// Limits of the tasks `query` and `document`, which replace that one.
    pub task_lengths: [Option<usize>; 2],
    /// Tokens that are put after those of a query.
    pub expansion: Option<Expansion>,
    /// Beginnings of prompts that are one token if the tokenizer knows them.
    pub markers: Vec<String>,
    /// The task whose adapter encodes texts without a task.
    pub default_task: Option<String>,
    /// Whether texts are lower-cased before tokenizing.
    pub do_lower_case: bool,
    /// How the tokenizer is called.
    pub processing: Processing,
    /// Whether texts become messages of a chat template.
    pub messages: Messages,
    /// What the file states of the classes' own settings.
    pub settings: Map<String, Value>,
}

impl SentenceConfig {
    /// The limit of tokens that a task has of its own.
    pub fn task_length(&self, task: Option<&str>) -> Option<usize> {
        let place = ["query", "document"].iter().position(|name| task == Some(name))?;
        self.task_lengths[place]
    }
}

/// Reads both files where they exist; `arguments` and `config` are those of the Transformer and its config.json.
///
/// As in sentence-transformers, a folder without `modules.json` is a bare transformer: neither file is read, and only
/// the tokenizer limits the length of texts.
///
/// # Errors
/// `ModelFormat` for files that cannot be read or have invalid values.
pub fn read_sentence_config(
    folder: &Path,
    class: &Class,
    modules: &Modules,
    arguments: &Arguments,
    config_json: &Map<String, Value>,
) -> Result<SentenceConfig> {
    let transformer = &folder.join(&modules.transformer);
    let prompts = class.prompts.iter().map(|name| ((*name).to_owned(), String::new())).collect();
    let mut config = SentenceConfig { prompts, ..SentenceConfig::default() };
    if modules.listed {
        let path = folder.join(MODEL_SETTINGS);
        if path.exists() {
            read_fields(&path, |fields| read_model_settings(fields, class, &mut config))?;
        }
        transformer::read(transformer, modules, arguments, &mut config)?;
    } else if modules.first == First::Transformer {
        config.messages = Messages::WithTemplate;
        if class.result == Feature::Tokens {
            stanford::read(folder, &mut config)?;
        }
    }
    if arguments.processor.contains_key("model_max_length") {
        let mut fields = Fields::new(&arguments.processor, Path::new("processor_kwargs"));
        config.max_seq_length = limit(&mut fields);
        fields.done()?;
    } else if config.max_seq_length.is_none() {
        config.max_seq_length = tokenizer_limit(transformer, arguments, config_json)?;
    }
    Ok(config)
}

fn read_model_settings(fields: &mut Fields<'_>, class: &Class, config: &mut SentenceConfig) -> Result<()> {
    let prompts = if fields.object("prompts").is_some() { read_prompts(fields.path())? } else { Vec::new() };
    for (name, prompt) in prompts {
        let text = match prompt {
            Value::String(text) => text,
            Value::Null => String::new(),
            other => {
                fields.fault(format!("the prompt {name:?} is {}, expected a string", shown(&other)));
                continue;
            }
        };
        match config.prompts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = text,
            None => config.prompts.push((name, text)),
        }
    }
    config.default_prompt_name = fields.text("default_prompt_name").map(str::to_owned);
    if let Some(name) = &config.default_prompt_name
        && !config.prompts.iter().any(|(known, _)| known == name)
    {
        let known: Vec<&str> = config.prompts.iter().map(|(known, _)| known.as_str()).collect();
        fields.fault(format!("default_prompt_name {name:?} is not among the prompts {known:?}"));
    }
    config.similarity_fn_name = fields.text("similarity_fn_name").map(str::to_owned);
    if let Some(name) = config.similarity_fn_name.take_if(|name| !class.similarities.contains(&name.as_str())) {
        let (file, known) = (fields.path().display(), class.similarities);
        log::warn!(
            target: "grilly",
            "{file}: similarity_fn_name {name:?} is left out, as in sentence-transformers; known are {known:?}"
        );
    }
    if class.result == Feature::Tokens {
        pylate::read(fields, config);
    }
    for (key, kind) in CLASSES.iter().flat_map(|class| class.settings) {
        let found = match kind {
            Setting::Size => fields.optional_size(key, 1..=LONGEST_TEXT).map(Value::from),
            Setting::Text => fields.text(key).map(Value::from),
            Setting::Texts => fields.texts(key).map(Value::from),
        };
        config.settings.extend(found.map(|value| ((*key).to_owned(), value)));
    }
    Ok(())
}

/// `model_max_length` of the tokenizer, or else its older name, unless it is null or the huge number that means no limit; at most
/// the model's `max_position_embeddings`, as in the reference.
fn tokenizer_limit(transformer: &Path, arguments: &Arguments, config: &Map<String, Value>) -> Result<Option<usize>> {
    let path = transformer.join("tokenizer_config.json");
    let mut values = if path.exists() { read_json(&path)? } else { Map::new() };
    values.extend(arguments.processor.clone());
    let mut fields = Fields::new(&values, &path);
    let stated = limit(&mut fields);
    fields.done()?;
    Ok(stated.map(|limit| limit.min(position_limit(config).unwrap_or(limit))))
}

fn limit(fields: &mut Fields<'_>) -> Option<usize> {
    let current = fields.is_null("model_max_length") || fields.get("model_max_length").is_some();
    let key = if current { "model_max_length" } else { "max_len" };
    let stated = fields.get(key).and_then(Value::as_f64);
    let endless = stated.is_some_and(|limit| limit > LONGEST_TEXT as f64);
    if endless { None } else { fields.optional_size(key, 1..=LONGEST_TEXT) }
}

/// `max_position_embeddings` of config.json, or its equivalent. Errors in that file are left to the architecture's
/// reader.
fn position_limit(config: &Map<String, Value>) -> Option<usize> {
    let named = |key: &str| config.get(key)?.as_u64();
    // T5, whose width is `d_model`, has no table of positions, though it states their number.
    let older = || named("n_positions").filter(|_| !config.contains_key("d_model"));
    let stated = named("max_position_embeddings").or_else(older);
    let positions = usize::try_from(stated?).ok()?;
    (positions > 0).then_some(positions)
}

fn read_prompts(path: &Path) -> Result<Vec<(String, Value)>> {
    #[derive(serde::Deserialize)]
    struct File {
        prompts: Ordered,
    }
    Ok(read_as::<File>(path)?.prompts.0)
}

#[cfg(test)]
mod tests;
