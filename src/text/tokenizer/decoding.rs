//! From ids back to texts, and what the files say about a tokenizer beside its ids.

use tokenizers::{Decoder, PostProcessor};

use super::settings::Settings;
use super::special::Specials;
use super::{Library, Tokenizer, guarded};
use crate::error::brief;
use crate::{Error, Result};

/// What the files say about a tokenizer beside its ids.
#[derive(Debug, Clone, Default)]
pub struct Described {
    /// Special tokens by role, in the reference's order.
    pub roles: Vec<(String, String)>,
    /// Special tokens without a role.
    pub extra: Vec<String>,
    /// Names of the model's inputs.
    pub inputs: Vec<String>,
    /// Whether spaces before punctuation are removed from decoded texts unless a call says otherwise.
    pub cleans_up: bool,
    /// Whether they are removed at all: byte pair encodings keep every space.
    pub can_clean_up: bool,
    /// Whether special tokens inside a text are split as other words are.
    pub splits_special: bool,
}

impl Described {
    pub(super) fn read(settings: &Settings, specials: &Specials, tokenizer: &Library) -> Result<Self> {
        let flag = |key: &str| Ok::<_, Error>(settings.flag(key)?.unwrap_or(false));
        let corrupts = flag("clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output")?;
        Ok(Described {
            roles: specials.roles().map(|(role, token)| (role.to_owned(), token.to_owned())).collect(),
            extra: specials.extra().map(str::to_owned).collect(),
            inputs: settings.input_names()?,
            cleans_up: flag("clean_up_tokenization_spaces")?,
            can_clean_up: corrupts || !tokenizer.get_model().merges(),
            splits_special: tokenizer.get_encode_special_tokens(),
        })
    }
}

impl Tokenizer {
    /// What the files say beside the ids; empty for a table of token vectors.
    pub fn described(&self) -> &Described {
        &self.loaded.described
    }

    /// The text of ids; those that no token has are left out, and special tokens if `skip_special`.
    ///
    /// # Errors
    /// `InvalidArgument` when the tokenizer's decoder rejects the tokens.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        guarded(|| self.loaded.tokenizer.decode(ids, skip_special)).map_err(|e| undecodable(&e))
    }

    /// The text of tokens.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn joined(&self, tokens: Vec<String>) -> Result<String> {
        match self.loaded.tokenizer.get_decoder() {
            Some(decoder) => guarded(|| decoder.decode(tokens)).map_err(|e| undecodable(&e)),
            None => Ok(tokens.join(" ")),
        }
    }

    /// The id of a token; `None` where it is unknown.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.loaded.tokenizer.token_to_id(token)
    }

    /// Every token with its id, added ones included.
    pub fn vocabulary(&self) -> impl Iterator<Item = (String, u32)> {
        self.loaded.tokenizer.get_vocab(true).into_iter()
    }

    /// Tokens that were added to the model's pieces, by id.
    pub fn added_tokens(&self) -> Vec<(u32, String)> {
        let added = self.loaded.tokenizer.get_added_tokens_decoder().into_iter();
        let mut tokens: Vec<_> = added.map(|(id, token)| (id, token.content)).collect();
        tokens.sort_unstable();
        tokens
    }

    /// The number of special tokens around a text, or those of a pair.
    pub fn around(&self, pair: bool) -> usize {
        self.loaded.tokenizer.get_post_processor().map_or(0, |template| template.added_tokens(pair))
    }

    /// The number of tokens, with or without added ones.
    pub fn size(&self, added: bool) -> usize {
        self.loaded.tokenizer.get_vocab_size(added)
    }
}

fn undecodable(error: &tokenizers::Error) -> Error {
    Error::InvalidArgument(format!("these tokens cannot be decoded: {}", brief(error)))
}
