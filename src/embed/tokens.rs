//! What a model's tokenizer makes of texts, for whoever pads them himself.

use super::EmbeddingModel;
use crate::Result;
use crate::text::tokenizer::{Side, Tokens};

impl EmbeddingModel {
    /// What [`EmbeddingModel::tokenize`] gives, with the segment of each token.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn tokenize_with_segments(&self, texts: &[String]) -> Result<Vec<Tokens>> {
        self.check_process()?;
        self.tokens_of(texts, 0..texts.len(), "")
    }

    /// Id of what the tokenizer pads with; nothing where it has no such token.
    pub fn pad_id(&self) -> Option<u32> {
        self.tokenizer.pad_id()
    }

    /// Where the tokenizer puts padding.
    pub fn padding_side(&self) -> Side {
        self.tokenizer.padding_side()
    }

    /// Whether the tokenizer gives the model segments; where it does not, all are 0.
    pub fn gives_segments(&self) -> bool {
        self.tokenizer.gives_segments()
    }

    /// How many leading tokens of `prompt + text` are the prompt's.
    ///
    /// # Errors
    /// As [`EmbeddingModel::encode`].
    pub fn prompt_length(&self, prompt: &str) -> Result<usize> {
        self.tokenizer.prompt_length(prompt, self.max_seq_length())
    }
}
