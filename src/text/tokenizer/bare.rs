//! Texts without special tokens around them, and what chat templates put there in their place.

use serde_json::Value;
use tokenizers::{AddedToken, PostProcessorWrapper};

use super::files::fault;
use super::{Tokenizer, Tokens, each, guarded};
use crate::Result;
use crate::error::brief;

impl Tokenizer {
    /// The same tokenizer, which puts no special tokens around texts.
    ///
    /// # Errors
    /// As [`Tokenizer::load`].
    pub fn without_surroundings(self) -> Result<Self> {
        let mut loaded = self.loaded;
        loaded.tokenizer.with_post_processor(None::<PostProcessorWrapper>);
        Tokenizer::of(loaded)
    }

    /// The same tokenizer, for which each of `beginnings` that it knows, or else its first word, is one token wherever a text has
    /// it.
    ///
    /// # Errors
    /// As [`Tokenizer::load`].
    pub fn with_beginnings(self, beginnings: &[String]) -> Result<Self> {
        let mut loaded = self.loaded;
        let known = |text: &&str| loaded.tokenizer.token_to_id(text).is_some();
        let parts = beginnings.iter().filter_map(|text| {
            let word = text.split_whitespace().next()?;
            [text.as_str(), word].into_iter().find(known)
        });
        let tokens: Vec<AddedToken> = parts.map(|text| AddedToken::from(text, true).normalized(false)).collect();
        let path = loaded.path.clone();
        guarded(|| loaded.tokenizer.add_special_tokens(tokens))
            .map_err(|e| fault(&path, format!("cannot be used: {}", brief(e))))?;
        Tokenizer::of(loaded)
    }

    /// The same tokenizer, which leaves a token out of every text, after long ones are cut.
    pub fn without(self, id: u32) -> Self {
        Tokenizer { left_out: Some(id), ..self }
    }

    /// As [`Tokenizer::encode`], without the special tokens around a text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_bare(&self, texts: &[String], most: usize) -> Result<Vec<Tokens>> {
        let side = self.truncation_side();
        each(texts, "text", |text| {
            let ids = self.cut_ids(text, most, side)?;
            let type_ids = vec![0; ids.len()];
            Ok(Tokens::new(ids, type_ids))
        })
    }

    /// The chat template, or several by name; `None` without one.
    pub fn chat_template(&self) -> Option<&Value> {
        Some(&self.loaded.chat).filter(|template| !template.is_null())
    }

    /// The special tokens that have roles, by role.
    pub fn roles(&self) -> &[(String, String)] {
        &self.loaded.described.roles
    }
}
