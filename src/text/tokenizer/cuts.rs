//! Positions at which a long text may be cut so that the tokens before the cut equal those of the whole text.

use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{NormalizedString, Normalizer};

use super::Library;
use super::parts::quotes;

/// The spaces at which a text may be cut; the space belongs to the part after the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cuts {
    /// None.
    Nowhere,
    /// Spaces between two visible ASCII characters.
    BetweenWords,
    /// All spaces.
    Spaces,
}

impl Cuts {
    /// The cuts of a tokenizer. In every case no added token contains white space, so none extends over a space, and
    /// such a token consumes only white space beside itself.
    ///
    /// With a normaliser that works on single characters, followed by BERT's splitting at white space, a text may be
    /// cut at any space.
    ///
    /// A character map works on graphemes. A space between two visible ASCII characters is a grapheme of its own, so
    /// the text before it is mapped in the same way whatever follows; the map must leave a space unchanged. Splitting
    /// at white space then ends a word there, and marks and pieces depend on each word alone. The words of byte-level
    /// BPE contain a space only as their first character: a word that starts before the cut ends at the visible
    /// character before it, with or without the text that follows.
    pub fn of(tokenizer: &Library) -> Self {
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

    /// Byte position of the first space at or after `from` at which the text may be cut.
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

/// The context that a normaliser needs to normalise one character.
#[derive(PartialEq, PartialOrd, Ord, Eq)]
enum Reach {
    Character,
    /// The grapheme that contains the character.
    Grapheme,
    Text,
}

impl Reach {
    fn of(normalizer: &NormalizerWrapper) -> Self {
        match normalizer {
            NormalizerWrapper::BertNormalizer(_)
            | NormalizerWrapper::Lowercase(_)
            | NormalizerWrapper::StripAccents(_) => Reach::Character,
            NormalizerWrapper::Precompiled(_) | NormalizerWrapper::NFKD(_) => Reach::Grapheme,
            NormalizerWrapper::Replace(step) if quotes().contains(step) => Reach::Grapheme,
            NormalizerWrapper::Sequence(steps) => {
                steps.as_ref().iter().map(Reach::of).max().unwrap_or(Reach::Character)
            }
            _ => Reach::Text,
        }
    }
}
