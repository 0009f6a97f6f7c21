//! What the tokens of a text are: its bytes, or pieces of words that are learned from it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokenizers::Tokenizer;
use tokenizers::models::TrainerWrapper;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use crate::process::memory::need;
use crate::process::threads;
use crate::text::tokenizer::Library;
use crate::{Error, Result, exit};

/// Kind of the tokens of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// Its bytes.
    #[default]
    Bytes,
    /// Pieces of words, of which the most frequent pair is joined again and again (Sennrich et al. 2016), over bytes as in
    /// GPT-2 (Radford et al. 2019); the text must be UTF-8.
    Bpe,
}

/// The tokens that a model knows.
#[derive(Clone, Default)]
pub struct Vocabulary(Option<Arc<Pieces>>);

struct Pieces {
    tokenizer: Library,
    json: String,
    /// Of each token.
    bytes: Vec<Vec<u8>>,
}

/// Bytes of a text that are tokenized at a time.
const PART: usize = 1 << 20;
/// Least occurrences of a pair that is joined.
const LEAST: u64 = 2;

impl Vocabulary {
    /// Learns at most `size` tokens from a text; the first 256 are the bytes.
    ///
    /// # Errors
    /// `InvalidArgument` for fewer than 256 tokens, or a text that is not UTF-8.
    ///
    /// ```
    /// use grilly::train::Vocabulary;
    /// let text = "the theme of the thesis ".repeat(9);
    /// let vocabulary = Vocabulary::learned(text.as_bytes(), 260).unwrap();
    /// let tokens = vocabulary.encode(b"the \xe2\x82\xac").unwrap();
    /// assert!(tokens.len() < 7);
    /// assert_eq!(vocabulary.decode(&tokens).unwrap(), b"the \xe2\x82\xac");
    /// ```
    pub fn learned(text: &[u8], size: usize) -> Result<Self> {
        if size < 256 {
            let problem = format!("vocab_size is {size}, expected at least 256, the bytes, with tokenizer \"bpe\"");
            return Err(Error::InvalidArgument(problem));
        }
        // Every token beyond the bytes is a pair of the text, joined; the library makes room for all that are asked for.
        let size = size.min(text.len().saturating_add(256));
        need(text.len() as u128, "a copy of the text")?;
        let text = characters(text)?.to_owned();
        // Its parts take as long as they take.
        exit::abandonable(move || threads::run(|| Vocabulary::learn(&text, size))?)?
    }

    fn learn(text: &str, size: usize) -> Result<Self> {
        let mut tokenizer = Tokenizer::new(BPE::default());
        tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true))).with_decoder(Some(ByteLevel::default()));
        let alphabet = ByteLevel::alphabet().into_iter().collect();
        let trainer = BpeTrainer::builder().show_progress(false).vocab_size(size).min_frequency(LEAST);
        let mut trainer = TrainerWrapper::from(trainer.initial_alphabet(alphabet).build());
        tokenizer.train(&mut trainer, parts(text).into_iter()).map_err(fault)?;
        Vocabulary::read(tokenizer.to_string(true).map_err(fault)?)
    }

    /// That of a tokenizer.json that [`Vocabulary::json`] gave.
    ///
    /// # Errors
    /// `InvalidArgument` for a file of another kind.
    pub fn read(json: String) -> Result<Self> {
        let tokenizer: Library = json.parse().map_err(fault)?;
        let mut found: Vec<(String, u32)> = tokenizer.get_vocab(true).into_iter().collect();
        found.sort_unstable_by_key(|(_, id)| *id);
        let of_characters = byte_of_characters();
        let mut bytes = vec![Vec::new(); found.len()];
        for (token, id) in found {
            let own: Option<Vec<u8>> = token.chars().map(|character| of_characters.get(&character).copied()).collect();
            match (own, bytes.get_mut(id as usize)) {
                (Some(own), Some(place)) if !own.is_empty() => *place = own,
                _ => return Err(fault(format!("token {id}, {token:?}, does not stand for bytes").into())),
            }
        }
        Ok(Vocabulary(Some(Arc::new(Pieces { tokenizer, json, bytes }))))
    }

    /// The content of its tokenizer.json; `None` for bytes.
    pub fn json(&self) -> Option<&str> {
        self.0.as_ref().map(|pieces| pieces.json.as_str())
    }

    /// The number of tokens.
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(256, |pieces| pieces.bytes.len())
    }

    /// The tokens of a text.
    ///
    /// # Errors
    /// `InvalidArgument` for a text that is not UTF-8, but for tokens that are bytes.
    pub fn encode(&self, text: &[u8]) -> Result<Vec<u32>> {
        let Some(pieces) = &self.0 else { return Ok(text.iter().copied().map(u32::from).collect()) };
        let parts = parts(characters(text)?);
        threads::run(|| {
            let mut tokens = Vec::new();
            for parts in parts.chunks(rayon::current_num_threads()) {
                exit::check()?;
                let found = pieces.tokenizer.encode_batch_fast(parts.to_vec(), false).map_err(fault)?;
                tokens.extend(found.iter().flat_map(|part| part.get_ids()));
            }
            Ok(tokens)
        })?
    }

    /// The bytes of tokens, which may end within a character.
    ///
    /// # Errors
    /// `IndexOutOfRange` for a token that is not in the vocabulary.
    pub fn decode(&self, tokens: &[u32]) -> Result<Vec<u8>> {
        let size = self.size();
        if let Some(token) = tokens.iter().find(|token| **token as usize >= size) {
            return Err(Error::IndexOutOfRange(format!("token {token} is outside the vocabulary of {size}")));
        }
        Ok(match &self.0 {
            None => tokens.iter().map(|token| *token as u8).collect(),
            Some(pieces) => tokens.iter().flat_map(|token| &pieces.bytes[*token as usize]).copied().collect(),
        })
    }

    /// The number of bytes of tokens of a text.
    pub fn bytes_of(&self, tokens: &[u32]) -> usize {
        let of = |pieces: &Arc<Pieces>| tokens.iter().map(|token| pieces.bytes[*token as usize].len()).sum();
        self.0.as_ref().map_or(tokens.len(), of)
    }
}

/// Where a text of which a share is held out is divided: between characters, if its tokens are pieces of words.
pub(super) fn split(text: &[u8], kind: TokenKind, held_out: f64) -> usize {
    let mut split = text.len() - (text.len() as f64 * held_out) as usize;
    // Bytes after the first of a character begin with these bits.
    while kind == TokenKind::Bpe && split > 0 && text.get(split).is_some_and(|byte| byte & 0xc0 == 0x80) {
        split -= 1;
    }
    split
}

fn fault(cause: tokenizers::Error) -> Error {
    Error::InvalidArgument(format!("tokenizer \"bpe\": {cause}"))
}

fn characters(text: &[u8]) -> Result<&str> {
    std::str::from_utf8(text).map_err(|cause| {
        let problem = format!("the text is not UTF-8 at byte {}", cause.valid_up_to());
        Error::InvalidArgument(format!("{problem}; correct it, or take tokenizer \"bytes\""))
    })
}

/// Parts of a text that end with a line, where there is one.
fn parts(mut text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    while text.len() > PART {
        let end = (PART..text.len()).find(|place| text.is_char_boundary(*place)).unwrap_or(text.len());
        let line = text[..end].rfind('\n').map_or(end, |place| place + 1);
        let (part, rest) = text.split_at(line);
        parts.push(part);
        text = rest;
    }
    parts.push(text);
    parts
}

/// The byte that a character of a token stands for: visible ones of Latin-1 for themselves, in order those from 256 on for
/// the others.
fn byte_of_characters() -> HashMap<char, u8> {
    let mut others = 256..;
    let character = |byte: u8| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => Some(char::from(byte)),
        _ => others.next().and_then(char::from_u32),
    };
    (0..=255).map(character).zip(0..=255).filter_map(|(character, byte)| Some((character?, byte))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        "The café serves naïve crêpes — 12 of them, then 345.\n\tAnother line of another text.\n".repeat(20)
    }

    #[test]
    fn every_text_comes_back_and_its_bytes_are_counted() {
        let text = text();
        for vocabulary in [Vocabulary::default(), Vocabulary::learned(text.as_bytes(), 300).unwrap()] {
            for given in ["", "x", "日本語 \u{1f600}\r\n  the  café", &text] {
                let tokens = vocabulary.encode(given.as_bytes()).unwrap();
                assert_eq!(vocabulary.decode(&tokens).unwrap(), given.as_bytes());
                assert_eq!(vocabulary.bytes_of(&tokens), given.len());
            }
            let size = vocabulary.size() as u32;
            let error = vocabulary.decode(&[3, size]).unwrap_err().to_string();
            assert_eq!(error, format!("token {size} is outside the vocabulary of {size}"));
        }
    }

    #[test]
    fn it_has_at_most_the_size_asked_for_and_is_read_back() {
        let text = text();
        for (size, expected) in [(256, 256), (300, 300), (10_000, 0)] {
            let learned = Vocabulary::learned(text.as_bytes(), size).unwrap();
            assert!(expected == 0 && (301..400).contains(&learned.size()) || learned.size() == expected);
            let json = learned.json().unwrap().to_owned();
            assert_eq!(json, Vocabulary::learned(text.as_bytes(), size).unwrap().json().unwrap(), "a second time");
            let read = Vocabulary::read(json).unwrap();
            assert_eq!(read.encode(text.as_bytes()).unwrap(), learned.encode(text.as_bytes()).unwrap());
        }
        let tokens = Vocabulary::learned(text.as_bytes(), 300).unwrap().encode(text.as_bytes()).unwrap();
        assert!(2 * tokens.len() < text.len());
    }

    #[test]
    fn long_texts_are_taken_in_parts_that_end_with_lines() {
        let line = "é".repeat(699) + "\n";
        let text = line.repeat(2000);
        let found = parts(&text);
        assert!(found.len() == 3 && found.iter().all(|part| part.ends_with('\n') && part.len() <= PART));
        assert_eq!(found.concat(), text);
        let found = "é".repeat(PART);
        assert_eq!(parts(&found).concat(), found);
    }

    #[test]
    fn a_text_is_divided_between_characters() {
        let text = "aé".repeat(10);
        let place = |kind| split(text.as_bytes(), kind, 0.1);
        assert_eq!([TokenKind::Bytes, TokenKind::Bpe].map(place), [27, 27]);
        let place = |kind| split(text.as_bytes(), kind, 0.34);
        assert_eq!([TokenKind::Bytes, TokenKind::Bpe].map(place), [20, 19]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = |found: Result<Vocabulary>| found.err().unwrap().to_string();
        assert!(error(Vocabulary::learned(b"abc", 255)).contains("vocab_size is 255, expected at least 256"));
        assert!(error(Vocabulary::learned(b"ab\xffc", 300)).contains("not UTF-8 at byte 2"));
        assert!(error(Vocabulary::read("{}".into())).contains("tokenizer \"bpe\""));
        let json = Vocabulary::learned(b"abc", 256).unwrap().json().unwrap().replace("\"a\": ", "\"\u{4e00}\": ");
        assert!(error(Vocabulary::read(json)).contains("does not stand for bytes"));
    }
}
