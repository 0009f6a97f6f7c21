//! Token ids exactly as the reference tokenizer makes them.

use std::path::Path;

use crate::Result;

/// A text's tokens, special tokens included, truncated to the limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Ids in the vocabulary.
    pub ids: Vec<u32>,
    /// Segment of each token: 0, or what the tokenizer's template says.
    pub type_ids: Vec<u32>,
}

/// The tokenizer of a model's folder; truncation and padding baked into tokenizer.json are overridden.
pub struct Tokenizer {}

impl Tokenizer {
    /// Reads `tokenizer.json` of `folder`.
    ///
    /// # Errors
    /// `ModelFormat` when it is missing or cannot be read.
    pub fn load(_folder: &Path, _lower_case: bool) -> Result<Self> {
        todo!()
    }

    /// Tokens of each text, in parallel, truncated to `most` tokens (special tokens kept).
    ///
    /// # Errors
    /// `InvalidArgument` when the tokenizer refuses a text.
    pub fn encode(&self, _texts: &[String], _most: usize) -> Result<Vec<Tokens>> {
        todo!()
    }

    /// How many leading tokens of `prompt + text` are the prompt's: its own tokens with specials, less the trailing one.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn prompt_length(&self, _prompt: &str) -> Result<usize> {
        todo!()
    }
}
