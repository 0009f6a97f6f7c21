//! Scores from logits of words: the module LogitScore.

use serde_json::{Value, json};

use super::Head;
use crate::model::fields::{Fields, unsupported};
use crate::{Error, Result};

/// What the reference calls the logits of the words after a text.
const LOGITS: &str = "causal_logits";
/// The keys of its settings, in the order of [`LogitScore::words`].
pub const KEYS: [&str; 2] = ["true_token_id", "false_token_id"];

/// A word of the vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// Its id.
    Id(u32),
    /// Its text, whose id the tokenizer knows.
    Named(String),
}

/// The logit of a word after a text, or that of one minus that of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogitScore {
    /// Folder of the module, relative to the model; `None` where modules.json does not list it.
    pub path: Option<String>,
    /// One word, or two.
    pub words: Vec<Word>,
}

impl LogitScore {
    /// Of a checkpoint without modules.json.
    pub fn named(words: &[impl AsRef<str>]) -> Self {
        let words = words.iter().map(|word| Word::Named(word.as_ref().to_owned())).collect();
        LogitScore { path: None, words }
    }

    /// One line of its settings.
    pub(super) fn shown(&self) -> String {
        let word = |word: &Word| match word {
            Word::Id(id) => id.to_string(),
            Word::Named(name) => format!("{name:?}"),
        };
        format!("token {}", self.words.iter().map(word).collect::<Vec<_>>().join(" minus token "))
    }

    /// The settings as a JSON object.
    pub(super) fn settings(&self) -> Value {
        let id = |place: usize| match self.words.get(place) {
            Some(Word::Id(id)) => json!(id),
            Some(Word::Named(_)) | None => Value::Null,
        };
        json!({KEYS[0]: id(0), KEYS[1]: id(1), "module_input_name": LOGITS})
    }

    /// The ids of the words.
    ///
    /// # Errors
    /// `InvalidArgument` for a word whose id is not known yet.
    pub fn ids(&self) -> Result<Vec<u32>> {
        let id = |word: &Word| match word {
            Word::Id(id) => Ok(*id),
            Word::Named(name) => Err(Error::InvalidArgument(format!("the id of the token {name:?} is not known yet"))),
        };
        self.words.iter().map(id).collect()
    }
}

/// Reads the module's own configuration.
pub(super) fn read(fields: &mut Fields<'_>, folder: &str) -> Result<Head> {
    let most = u32::MAX as usize;
    let yes = fields.size(KEYS[0], 0..=most);
    let no = fields.optional_size(KEYS[1], 0..=most);
    match fields.text("module_input_name") {
        None | Some(LOGITS) => {}
        Some(other) => {
            let what = format!("module_input_name {other:?}");
            return Err(unsupported(fields.path(), what, format!("only {LOGITS:?} is known")));
        }
    }
    let words = [Some(yes), no].into_iter().flatten().map(|id| Word::Id(id as u32)).collect();
    Ok(Head::LogitScore(LogitScore { path: Some(folder.to_owned()), words }))
}
