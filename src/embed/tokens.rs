//! The tokens of texts, for batches and for callers that pad the texts themselves.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use super::EmbeddingModel;
use super::encode::{Call, Given};
use crate::text::tokenizer::{self, Encodings, Side, Tokenizer, Tokens, Wanted};
use crate::{Error, Result};

impl EmbeddingModel {
    /// Token ids of each text, special tokens included, truncated to the limit; by the first of several routes, and without a chat
    /// template.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn tokenize(&self, texts: &[String]) -> Result<Vec<Vec<u32>>> {
        self.check_process()?;
        let tokens = self.tokens_of(Given::Texts(texts), 0..texts.len(), Call { chat: None, ..self.call("", None) })?;
        Ok(tokens.into_iter().map(|text| text.ids).collect())
    }

    /// The tokens of each text as it is encoded, with a prompt and for a task.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn tokenize_with_segments(&self, texts: &[String], prompt: &str, task: Option<&str>) -> Result<Vec<Tokens>> {
        self.check_process()?;
        let model = self.for_task(task)?;
        model.tokens_of(Given::Texts(texts), 0..texts.len(), model.call(prompt, task))
    }

    /// The tokens of each pair of texts as it is encoded.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn tokenize_pairs(&self, pairs: &[[String; 2]]) -> Result<Vec<Tokens>> {
        self.check_process()?;
        self.tokens_of(Given::Pairs(pairs), 0..pairs.len(), self.call("", None))
    }

    /// Encodings of texts as a call asks for them, with offsets; by the first of several routes.
    ///
    /// # Errors
    /// As [`Tokenizer::encodings`].
    pub fn encodings(&self, given: &[tokenizer::Given], wanted: &Wanted) -> Result<Encodings> {
        self.check_process()?;
        match &self.tokenizer_threads {
            Some(threads) => threads.install(|| self.tokenizer.encodings(given, wanted)),
            None => self.tokenizer.encodings(given, wanted),
        }
    }

    /// Whether padding before a text would change its positions in the reference, which counts from the start of a row.
    pub fn counts_positions(&self) -> bool {
        self.all().any(|model| model.spec.positions.count_padding())
    }

    /// Changes the end at which long texts are truncated, of all routes.
    pub fn set_truncation_side(&self, side: Side) {
        self.all().for_each(|model| model.tokenizer.set_truncation_side(side));
    }

    /// The tokenizer of the model's folder, of the first of several routes.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The number of leading tokens of `prompt + text` that belong to the prompt.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn prompt_length(&self, prompt: &str) -> Result<usize> {
        self.tokenizer.prompt_length(prompt, self.max_seq_length.load(Relaxed))
    }

    /// How texts with a prompt and of a task become tokens.
    pub(super) fn call<'a>(&'a self, prompt: &'a str, task: Option<&'a str>) -> Call<'a> {
        Call { prompt, task, most: self.longest(task), chat: self.chat.as_ref() }
    }

    /// The form of the messages that texts become: `flat` or `structured`; `None` for texts as they are.
    pub fn messages(&self) -> Option<&'static str> {
        self.chat.as_ref().map(|chat| chat.form().name())
    }

    /// The tokens of some of the texts, with ids checked against the embedding tables.
    pub(super) fn tokens_of(&self, given: Given<'_>, part: Range<usize>, call: Call<'_>) -> Result<Vec<Tokens>> {
        let first = part.start;
        let encode = || given.tokens(part, call, &self.tokenizer);
        let encoded = match &self.tokenizer_threads {
            Some(threads) => threads.install(encode),
            None => encode(),
        };
        let tokens = encoded.map_err(|error| match error {
            Error::InvalidArgument(problem) if first > 0 => {
                Error::InvalidArgument(format!("after {first} texts: {problem}"))
            }
            other => other,
        })?;
        let segments = self.spec.token_types.as_ref().map_or(usize::MAX, |table| table.rows);
        for (position, text) in (first..).zip(&tokens) {
            let looked_up = [
                ("token id", &text.ids, "embedding", self.spec.words.rows),
                ("segment", &text.type_ids, "segment", segments),
            ];
            for (what, ids, table, rows) in looked_up {
                let most = ids.iter().copied().max().unwrap_or(0) as usize;
                if most >= rows {
                    let problem = format!("text {position} has {what} {most}, but the {table} table has {rows} rows");
                    return Err(Error::IndexOutOfRange(problem));
                }
            }
        }
        Ok(tokens)
    }

    /// Number of leading tokens of every text that pooling leaves out; none of messages.
    pub(super) fn unpooled_tokens(&self, prompt: &str) -> Result<usize> {
        if prompt.is_empty() || self.include_prompt.load(Relaxed) || self.chat.is_some() {
            return Ok(0);
        }
        self.tokenizer.prompt_length(prompt, self.max_seq_length.load(Relaxed))
    }

    /// Maximum tokens of a text of a task.
    pub(super) fn longest(&self, task: Option<&str>) -> usize {
        let processing = &self.sentence.processing;
        let own = self.sentence.task_length(task).filter(|_| self.modules.gives_task_to_tokenizer());
        let stated = if processing.truncates { processing.max_length.or(own) } else { Some(usize::MAX) };
        stated.map_or(self.max_seq_length.load(Relaxed), |most| most.min(self.spec.positions.longest_text()))
    }
}
