//! Tokenizer output for callers that pad the texts themselves.

use super::EmbeddingModel;
use crate::Result;
use crate::text::tokenizer::{Tokenizer, Tokens};

impl EmbeddingModel {
    /// As [`EmbeddingModel::tokenize`], with the segment of each token.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn tokenize_with_segments(&self, texts: &[String]) -> Result<Vec<Tokens>> {
        self.check_process()?;
        self.tokens_of(texts, 0..texts.len(), "")
    }

    /// The tokenizer of the model's folder.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The number of leading tokens of `prompt + text` that belong to the prompt.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn prompt_length(&self, prompt: &str) -> Result<usize> {
        self.tokenizer.prompt_length(prompt, self.max_seq_length())
    }
}
