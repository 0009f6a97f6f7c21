//! Which token vectors of a text are scored: the module MultiVectorMask.

use serde_json::Value;

use super::Head;
use crate::Result;
use crate::model::fields::Fields;

/// What PyLate leaves out of documents unless a file says otherwise: Python's `string.punctuation`.
const PUNCTUATION: &str = r##"!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~"##;

/// Which token vectors are scored, of all those of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultiVectorMask {
    /// Tokens that are left out.
    pub skipped: Vec<String>,
    /// The tasks of whose texts they are left out; texts without a task count as documents.
    pub tasks: Vec<String>,
    /// Ids of the only tokens that are kept of texts other than queries; empty for all.
    pub kept: Vec<u32>,
}

/// Each of its signs.
pub(in crate::model) fn punctuation() -> Vec<String> {
    PUNCTUATION.chars().map(String::from).collect()
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

/// Reads the module's own configuration.
pub(super) fn read(fields: &mut Fields<'_>) -> Result<Head> {
    let skipped = fields.texts("skiplist_words").map(owned).unwrap_or_default();
    let tasks = match fields.get("skiplist_tasks") {
        Some(Value::String(task)) => vec![task.clone()],
        _ => fields.texts("skiplist_tasks").map_or_else(|| vec!["document".to_owned()], owned),
    };
    let id = |number: f64| (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(number);
    let given = fields.numbers("keep_only_token_ids").unwrap_or_default();
    let kept: Vec<u32> = given.iter().filter_map(|number| id(*number)).map(|number| number as u32).collect();
    if kept.len() < given.len() {
        fields.fault(format!("keep_only_token_ids are {given:?}, expected ids of tokens"));
    }
    Ok(Head::MultiVectorMask(MultiVectorMask { skipped, tasks, kept }))
}

/// The module that a folder of PyLate's stands for, by its config_sentence_transformers.json.
pub(super) fn of_pylate(fields: &mut Fields<'_>) -> Head {
    let skipped = fields.texts("skiplist_words").map_or_else(punctuation, owned);
    Head::MultiVectorMask(MultiVectorMask { skipped, tasks: vec!["document".to_owned()], kept: Vec::new() })
}
