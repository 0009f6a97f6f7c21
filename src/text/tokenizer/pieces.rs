//! What a tokenizer makes of texts before its model divides the words.

use tokenizers::{NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};

use super::{Library, Tokenizer, guarded};
use crate::error::brief;
use crate::process::memory::need_many;
use crate::{Error, Result};

/// A normalised text, and the words that its normalised form is divided into.
pub type Pieces = (String, Vec<String>);

/// The pieces of each text by the normaliser and the pre-tokenizer of `file`, the contents of a tokenizer.json; added tokens are
/// not looked for.
///
/// # Errors
/// `InvalidArgument` for contents that are no tokenizer, or a text that it rejects.
pub fn pieces(file: &str, texts: &[String]) -> Result<Vec<Pieces>> {
    let fault = |e: tokenizers::Error| Error::InvalidArgument(format!("not a tokenizer: {}", brief(e)));
    let tokenizer = guarded(|| file.parse::<Library>()).map_err(fault)?;
    let one = |text: &String| {
        let mut normalized = NormalizedString::from(text.as_str());
        if let Some(normalizer) = tokenizer.get_normalizer() {
            normalizer.normalize(&mut normalized)?;
        }
        let normalized = normalized.get().to_owned();
        let mut words = PreTokenizedString::from(normalized.as_str());
        if let Some(pre_tokenizer) = tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut words)?;
        }
        let words = words.get_splits(OffsetReferential::Original, OffsetType::Byte);
        Ok((normalized, words.into_iter().map(|(word, ..)| word.to_owned()).collect()))
    };
    let rejected = |text: &String, e| Error::InvalidArgument(format!("{text:?} cannot be divided: {}", brief(e)));
    texts.iter().map(|text| guarded(|| one(text)).map_err(|e| rejected(text, e))).collect()
}

impl Tokenizer {
    /// The contents of tokenizer.json with all that the model's class changes.
    ///
    /// # Errors
    /// `Unsupported` where they cannot be written; `OutOfMemory` for ids that are far apart.
    pub fn file(&self) -> Result<String> {
        // The library lists every id below the largest that no token has.
        let ids = self.loaded.tokenizer.get_vocab(true).into_values().max().unwrap_or(0);
        need_many(8 * u128::from(ids), "tokenizer.json")?;
        self.loaded.tokenizer.to_string(false).map_err(|e| Error::unsupported("the tokenizer", brief(e)))
    }
}
