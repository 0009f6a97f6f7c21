//! Texts without special tokens around them, and what chat templates put there in their place.

use serde_json::Value;
use tokenizers::PostProcessorWrapper;

use super::{Tokenizer, Tokens, each};
use crate::Result;

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

    /// As [`Tokenizer::encode`], without the special tokens around a text.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_bare(&self, texts: &[String], most: usize) -> Result<Vec<Tokens>> {
        let side = self.truncation_side();
        each(texts, "text", |text| {
            let ids = self.cut_ids(text, most, side)?;
            let type_ids = vec![0; ids.len()];
            Ok(Tokens { ids, type_ids })
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
