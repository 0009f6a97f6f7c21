//! Tokenizer output for callers that pad the texts themselves.

use super::EmbeddingModel;
use crate::Result;
use crate::text::tokenizer::{Side, Tokens};

impl EmbeddingModel {
    /// As [`EmbeddingModel::tokenize`], with the segment of each token.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn tokenize_with_segments(&self, texts: &[String]) -> Result<Vec<Tokens>> {
        self.check_process()?;
        self.tokens_of(texts, 0..texts.len(), "")
    }

    /// Id of the padding token; `None` if the tokenizer has no such token.
    pub fn pad_id(&self) -> Option<u32> {
        self.tokenizer.pad_id()
    }

    /// The side on which the tokenizer pads.
    pub fn padding_side(&self) -> Side {
        self.tokenizer.padding_side()
    }

    /// Whether the tokenizer passes segments to the model; if not, all are 0.
    pub fn gives_segments(&self) -> bool {
        self.tokenizer.gives_segments()
    }

    /// The number of leading tokens of `prompt + text` that belong to the prompt.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn prompt_length(&self, prompt: &str) -> Result<usize> {
        self.tokenizer.prompt_length(prompt, self.max_seq_length())
    }
}
