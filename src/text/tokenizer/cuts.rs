//! Where a long text may be cut so that the tokens before the cut are those of the whole text.

use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{NormalizedString, Normalizer, Tokenizer};

/// Which spaces a text may be cut at; the space goes with what follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cuts {
    /// None.
    Nowhere,
    /// Those between two visible ASCII characters.
    BetweenWords,
    /// All.
    Spaces,
}

impl Cuts {
    /// Those of a tokenizer. In every case no added token holds white space, so none reaches over a space, and what
    /// such a token takes beside itself is white space alone.
    ///
    /// A normaliser that looks at single characters, followed by BERT's splitting at white space, lets a text be cut at
    /// any space.
    ///
    /// A map of characters looks at what is seen as one character. Between two visible ASCII characters a space is one
    /// by itself, so the map does the same to what stands before it, whatever follows; it has to leave a space as it is.
    /// Splitting at white space then ends a word there, and marks and pieces are made of each word alone. The words of
    /// byte-level BPE hold a space only as their first character: one that starts before the cut ends at the visible
    /// character before it, with or without what follows.
    pub fn of(tokenizer: &Tokenizer) -> Self {
        let normalizer = tokenizer.get_normalizer();
        let normalized = |text: &str| {
            let mut text = NormalizedString::from(text);
            normalizer.map_or(Ok(()), |normalizer| normalizer.normalize(&mut text)).map(|()| text.get().to_owned())
        };
        let unspaced = |text: &str| !text.contains(char::is_whitespace);
        let mut tokens = tokenizer.get_added_tokens_decoder().into_values();
        let tokens_are_words = tokens.all(|token| {
            unspaced(&token.content)
                && (!token.normalized || normalized(&token.content).is_ok_and(|own| unspaced(&own)))
        });
        let words = match tokenizer.get_pre_tokenizer() {
            Some(PreTokenizerWrapper::BertPreTokenizer(_)) => Cuts::Spaces,
            Some(PreTokenizerWrapper::ByteLevel(bytes)) if bytes.use_regex => Cuts::BetweenWords,
            Some(PreTokenizerWrapper::Sequence(steps)) => match steps.as_ref() {
                [PreTokenizerWrapper::WhitespaceSplit(_), PreTokenizerWrapper::Metaspace(_)] => Cuts::BetweenWords,
                _ => Cuts::Nowhere,
            },
            _ => Cuts::Nowhere,
        };
        match (words, normalizer.map_or(Reach::Character, Reach::of)) {
            _ if !tokens_are_words => Cuts::Nowhere,
            (words, Reach::Character) => words,
            (Cuts::Spaces | Cuts::BetweenWords, Reach::Grapheme) if normalized(" ").is_ok_and(|space| space == " ") => {
                Cuts::BetweenWords
            }
            _ => Cuts::Nowhere,
        }
    }

    /// The first space, as a place in the text's bytes, at or after `from` at which the text may be cut.
    pub fn first(self, text: &str, from: usize) -> Option<usize> {
        let bytes = text.as_bytes();
        let visible = |place: usize| bytes.get(place).is_some_and(u8::is_ascii_graphic);
        (from..bytes.len()).find(|&place| {
            bytes[place] == b' '
                && match self {
                    Cuts::Nowhere => false,
                    Cuts::BetweenWords => place > 0 && visible(place - 1) && visible(place + 1),
                    Cuts::Spaces => true,
                }
        })
    }
}

/// How much of a text a normaliser looks at to write one character of it.
#[derive(PartialEq, PartialOrd, Ord, Eq)]
enum Reach {
    Character,
    /// What is seen as one character.
    Grapheme,
    Text,
}

impl Reach {
    fn of(normalizer: &NormalizerWrapper) -> Self {
        match normalizer {
            NormalizerWrapper::BertNormalizer(_) | NormalizerWrapper::Lowercase(_) => Reach::Character,
            NormalizerWrapper::Precompiled(_) => Reach::Grapheme,
            NormalizerWrapper::Sequence(steps) => {
                steps.as_ref().iter().map(Reach::of).max().unwrap_or(Reach::Character)
            }
            _ => Reach::Text,
        }
    }
}
