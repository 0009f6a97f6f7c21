//! The tokens of texts, for batches and for callers that pad the texts themselves.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use super::encode::{Call, Given};
use super::{Model, Route};
use crate::model::task_head::{Padding, TaskHead};
use crate::text::tokenizer::{self, Encodings, Side, Tokens, Wanted};
use crate::{Error, Result, exit};

impl Model {
    /// Token ids of each text, special tokens included, truncated to the limit; by the first of several routes, and without a chat
    /// template.
    ///
    /// # Errors
    /// As [`Model::encode`].
    pub fn tokenize(&self, texts: &[String]) -> Result<Vec<Vec<u32>>> {
        self.check_process()?;
        let route = self.first();
        let call = Call { chat: None, ..route.call("", None) };
        let tokens = route.tokens_of(Given::Texts(texts), 0..texts.len(), call)?;
        Ok(tokens.into_iter().map(|text| text.ids).collect())
    }

    /// The tokens of each text as it is encoded, with a prompt and for a task.
    ///
    /// # Errors
    /// As [`Model::encode`].
    pub fn tokenize_with_segments(&self, texts: &[String], prompt: &str, task: Option<&str>) -> Result<Vec<Tokens>> {
        self.check_process()?;
        let route = self.route(task)?;
        route.tokens_of(Given::Texts(texts), 0..texts.len(), route.call(prompt, task))
    }

    /// The tokens of each pair of texts as it is encoded.
    ///
    /// # Errors
    /// As [`Model::encode`].
    pub fn tokenize_pairs(&self, pairs: &[[String; 2]]) -> Result<Vec<Tokens>> {
        self.check_process()?;
        let route = self.first();
        route.tokens_of(Given::Pairs(pairs), 0..pairs.len(), route.call("", None))
    }

    /// Encodings of texts as a call asks for them, with offsets; by the first of several routes.
    ///
    /// # Errors
    /// As [`tokenizer::Tokenizer::encodings`].
    pub fn encodings(&self, given: &[tokenizer::Given], wanted: &Wanted) -> Result<Encodings> {
        self.check_process()?;
        let route = self.first();
        route.on_threads(|| route.tokenizer.encodings(given, wanted))
    }

    /// Whether padding before a text would change its positions in the reference, which counts from the start of a row.
    pub fn counts_positions(&self) -> bool {
        self.routes.iter().any(|route| route.spec.positions.count_padding())
    }

    /// Changes the end at which long texts are truncated, of all routes.
    pub fn set_truncation_side(&self, side: Side) {
        self.routes.iter().for_each(|route| route.tokenizer.set_truncation_side(side));
    }
}

impl Route {
    /// The number of leading tokens of `prompt + text` that belong to the prompt.
    ///
    /// # Errors
    /// As [`Model::encode`].
    pub fn prompt_length(&self, prompt: &str) -> Result<usize> {
        self.tokenizer.prompt_length(prompt, self.max_seq_length())
    }

    /// How texts with a prompt and of a task become tokens.
    pub(super) fn call<'a>(&'a self, prompt: &'a str, task: Option<&'a str>) -> Call<'a> {
        Call { prompt, task, most: self.longest(task), chat: self.chat.as_ref() }
    }

    /// Runs the tokenizer on its threads.
    fn on_threads<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.tokenizer_threads {
            Some(threads) => exit::on(threads, work),
            None => work(),
        }
    }

    /// The tokens of some of the texts, with ids checked against the embedding tables.
    pub(super) fn tokens_of(&self, given: Given<'_>, part: Range<usize>, call: Call<'_>) -> Result<Vec<Tokens>> {
        let (first, task) = (part.start, call.task);
        let encoded = self.on_threads(|| given.tokens(part, call, &self.tokenizer));
        let mut tokens = encoded.map_err(|error| match error {
            Error::InvalidArgument(problem) if first > 0 => {
                Error::InvalidArgument(format!("after {first} texts: {problem}"))
            }
            other => other,
        })?;
        if let Some(filler) = self.filler(task) {
            filler.fill(&mut tokens);
        }
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

    /// The texts without the padding tokens that they end with, where the head of the checkpoint does not read these; of a
    /// text of nothing else the first is left, as in the reference.
    pub(super) fn without_padding(&self, mut texts: Vec<Tokens>) -> Vec<Tokens> {
        if let Some(TaskHead { padding: Padding::Cut(padding), .. }) = self.head {
            for text in &mut texts {
                let last = text.ids.iter().rposition(|id| *id != padding).unwrap_or(0);
                text.ids.truncate(last + 1);
                text.type_ids.truncate(last + 1);
            }
        }
        texts
    }

    /// Refuses batches of several texts where the reference needs a padding token that the configuration does not state.
    ///
    /// # Errors
    /// `ModelFormat` naming file, key and remedy.
    pub(super) fn need_padding(&self) -> Result<()> {
        if !matches!(self.head, Some(TaskHead { padding: Padding::Unstated, .. })) {
            return Ok(());
        }
        let path = self.folder.join(&self.modules.transformer).join("config.json");
        let problem = "pad_token_id is missing, without which several texts of a batch are not scored: state it there or in \
                       config_kwargs, or set batch_size to 1";
        Err(Error::format(&path, problem))
    }

    /// Number of leading tokens of every text that pooling leaves out; none of messages.
    pub(super) fn unpooled_tokens(&self, prompt: &str) -> Result<usize> {
        if prompt.is_empty() || self.include_prompt.load(Relaxed) || self.chat.is_some() {
            return Ok(0);
        }
        self.prompt_length(prompt)
    }
}
