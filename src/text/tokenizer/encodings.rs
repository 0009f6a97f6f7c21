//! Encodings as callers of a tokenizer see them: with offsets and words, truncated and padded as a call asks.

use std::borrow::Cow;

use tokenizers::{
    AddedVocabulary, Encoding, Model, OffsetType, PaddingParams, PaddingStrategy, PostProcessor, PreTokenizer,
    TruncationParams, TruncationStrategy, pad_encodings, truncate_encodings,
};

use super::pairs::kept;
use super::{Side, Tokenizer, guarded, in_parallel};
use crate::error::brief;
use crate::{Error, Result};

/// Texts for which it is worth waking other threads to count their tokens.
const MANY: usize = 64;

/// A text, or the words into which a caller has split it.
#[derive(Debug, Clone)]
pub enum Sequence {
    /// As it is.
    Text(String),
    /// Words, each tokenized alone.
    Words(Vec<String>),
}

/// A text and, of a pair, the second.
pub type Given = (Sequence, Option<Sequence>);

/// What truncation shortens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortened {
    /// The longer text of a pair, then both.
    Longest,
    /// The first text.
    First,
    /// The second text of a pair.
    Second,
}

/// How long texts are truncated.
#[derive(Debug, Clone)]
pub struct Truncation {
    /// Maximum tokens, special ones included.
    pub most: usize,
    /// Tokens that a part has in common with the one before.
    pub stride: usize,
    /// What is shortened.
    pub shortened: Shortened,
}

/// How texts are padded.
#[derive(Debug, Clone)]
pub struct Padding {
    /// Tokens of each; `None` for as many as the longest has.
    pub length: Option<usize>,
    /// The number of tokens is a multiple of this.
    pub multiple: Option<usize>,
    /// The side of the padding.
    pub side: Side,
    /// The padding token and its id.
    pub token: (String, u32),
}

/// How a call encodes texts.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Whether to leave out the special tokens around a text.
    pub bare: bool,
    /// Whether special tokens inside a text are split; `None` for as the files say.
    pub splits_special: Option<bool>,
    /// `None` for whole texts.
    pub truncation: Option<Truncation>,
    /// `None` for none.
    pub padding: Option<Padding>,
    /// Whether the parts that truncation cuts off follow their text.
    pub overflow: bool,
}

/// Encoded texts, each followed by the parts that were cut off if they were asked for.
#[derive(Debug, Clone)]
pub struct Encodings {
    /// One per row.
    pub rows: Vec<Encoding>,
    /// The text of each row.
    pub texts: Vec<usize>,
}

impl Tokenizer {
    /// Encodings of texts or pairs, in parallel on the current rayon pool. Offsets are in characters.
    ///
    /// # Errors
    /// `InvalidArgument` when the tokenizer rejects a text, for a limit below the number of special tokens, for a stride that
    /// is not below what the limit leaves, and where the text to be shortened is too short.
    pub fn encodings(&self, given: &[Given], wanted: &Wanted) -> Result<Encodings> {
        let mut vocabulary = Cow::Borrowed(self.loaded.tokenizer.get_added_vocabulary());
        if let Some(splits) = wanted.splits_special.filter(|splits| *splits != vocabulary.get_encode_special_tokens()) {
            vocabulary.to_mut().set_encode_special_tokens(splits);
        }
        let mut rows: Vec<Encoding> = in_parallel(given, |place, (first, second)| {
            let fault = |e| Error::InvalidArgument(format!("text {place} cannot be encoded: {}", brief(e)));
            let read = |text: &Sequence, segment| guarded(|| self.sequence(text, segment, &vocabulary)).map_err(fault);
            let encodings = (read(first, 0)?, second.as_ref().map(|second| read(second, 1)).transpose()?);
            let (first, second) = match &wanted.truncation {
                Some(truncation) => self.truncated(encodings, truncation, wanted.bare)?,
                None => encodings,
            };
            guarded(|| self.loaded.tokenizer.post_process(first, second, !wanted.bare)).map_err(fault)
        })?;
        if let Some(padding) = &wanted.padding {
            guarded(|| pad_encodings(&mut rows, &padding.library()))
                .map_err(|e| Error::InvalidArgument(format!("the texts cannot be padded: {}", brief(e))))?;
        }
        let mut found = Encodings { rows: Vec::with_capacity(rows.len()), texts: Vec::with_capacity(rows.len()) };
        for (text, mut row) in rows.into_iter().enumerate() {
            let parts = row.take_overflowing();
            let parts = std::iter::once(row).chain(parts.into_iter().filter(|_| wanted.overflow));
            let before = found.rows.len();
            found.rows.extend(parts);
            found.texts.extend(std::iter::repeat_n(text, found.rows.len() - before));
        }
        Ok(found)
    }

    /// How many tokens each text has, without those around it; of many texts in parallel.
    ///
    /// # Errors
    /// `InvalidArgument` when the tokenizer rejects a text.
    pub fn counts(&self, texts: &[&str]) -> Result<Vec<usize>> {
        let fault = |e| Error::InvalidArgument(format!("a text cannot be encoded: {}", brief(e)));
        let count = |text: &str| guarded(|| Ok(self.loaded.tokenizer.encode_fast(text, false)?.len())).map_err(fault);
        if texts.len() < MANY {
            return texts.iter().map(|text| count(text)).collect();
        }
        in_parallel(texts, |_, text| count(text))
    }

    /// The tokens of a text, without those around it.
    fn sequence(&self, text: &Sequence, segment: u32, vocabulary: &AddedVocabulary) -> tokenizers::Result<Encoding> {
        let inner = &self.loaded.tokenizer;
        let part = |text: &str, word: Option<u32>| {
            let mut pieces = vocabulary.extract_and_normalize(inner.get_normalizer(), text);
            if let Some(splitter) = inner.get_pre_tokenizer() {
                splitter.pre_tokenize(&mut pieces)?;
            }
            pieces.tokenize(|piece| inner.get_model().tokenize(piece.get()))?;
            pieces.into_encoding(word, segment, OffsetType::Char)
        };
        match text {
            Sequence::Text(text) => part(text, None),
            Sequence::Words(words) => (0..).zip(words).map(|(number, word)| part(word, Some(number))).collect(),
        }
    }

    fn truncated(
        &self,
        (first, second): (Encoding, Option<Encoding>),
        truncation: &Truncation,
        bare: bool,
    ) -> Result<(Encoding, Option<Encoding>)> {
        let Truncation { most, stride, shortened } = truncation;
        let template = self.loaded.tokenizer.get_post_processor().filter(|_| !bare);
        let added = template.map_or(0, |template| template.added_tokens(second.is_some()));
        let room = most.checked_sub(added).ok_or_else(|| {
            Error::InvalidArgument(format!("max_length is {most}, but {added} special tokens are added to each text"))
        })?;
        let lengths = [first.len(), second.as_ref().map_or(0, Encoding::len)];
        let removed = lengths.iter().sum::<usize>().saturating_sub(room);
        let kept = match shortened {
            Shortened::Longest => kept(lengths, room),
            Shortened::First => [lengths[0].saturating_sub(removed), lengths[1]],
            Shortened::Second => [lengths[0], lengths[1].saturating_sub(removed)],
        };
        // Parts of no more tokens than they have in common would never end.
        let shortest = kept.iter().zip(lengths).filter(|(kept, length)| **kept < *length).map(|(kept, _)| *kept).min();
        let shortest = shortest.map_or(room + 1, |shortest| shortest.max(1));
        if *stride >= shortest {
            let problem =
                format!("stride is {stride}, expected less than {shortest}, the tokens left by max_length={most}");
            return Err(Error::InvalidArgument(problem));
        }
        let parameters = TruncationParams {
            direction: self.truncation_side().truncation(),
            max_length: room,
            strategy: match shortened {
                Shortened::Longest => TruncationStrategy::LongestFirst,
                Shortened::First => TruncationStrategy::OnlyFirst,
                Shortened::Second => TruncationStrategy::OnlySecond,
            },
            stride: *stride,
        };
        guarded(|| truncate_encodings(first, second, &parameters)).map_err(|e| Error::InvalidArgument(brief(e)))
    }
}

impl Padding {
    fn library(&self) -> PaddingParams {
        PaddingParams {
            strategy: self.length.map_or(PaddingStrategy::BatchLongest, PaddingStrategy::Fixed),
            direction: self.side.padding(),
            pad_to_multiple_of: self.multiple,
            pad_id: self.token.1,
            pad_type_id: 0,
            pad_token: self.token.0.clone(),
        }
    }
}
