//! The steps of a class' normaliser and pre-tokenizer.

use tokenizers::SplitDelimiterBehavior::{Isolated, MergedWithPrevious};
use tokenizers::normalizers::precompiled::Precompiled;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::normalizers::utils::Lowercase;
use tokenizers::normalizers::{BertNormalizer, NFC, NFKD, NormalizerWrapper, Strip, StripAccents};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::SplitPattern;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;

use super::super::settings::Settings;
use super::rows::MENDED;
use crate::Result;

/// A step of normalisation.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Normal {
    /// Control characters out, Chinese characters apart, accents and, unless the class decides it, capitals as the settings
    /// say, as in BERT.
    Words { lower: Option<bool> },
    /// The same with capitals and accents kept, whatever the settings say.
    Cased,
    /// The file's map of characters, if it has one.
    Mapped,
    /// Letters composed with their accents.
    Composed,
    /// No accents, unless `keep_accents`.
    Plain,
    /// No capitals, if `do_lower_case`, by default so.
    Lower(bool),
    /// A text replaced by another.
    Text(&'static str, &'static str),
    /// What a pattern matches replaced by a text.
    Pattern(&'static str, &'static str),
    /// No white space at the end.
    Trimmed,
}

impl Normal {
    /// The library's steps. No pattern of a class is refused.
    pub fn of(self, settings: &Settings, characters: Option<&Precompiled>) -> Result<Vec<NormalizerWrapper>> {
        let words = |spaced, accents, lower| BertNormalizer::new(true, spaced, accents, lower).into();
        let replaced = |pattern: ReplacePattern, text: &str| {
            Replace::new(pattern, text).ok().map(NormalizerWrapper::from).into_iter().collect()
        };
        Ok(match self {
            Normal::Words { lower: fixed } => {
                let spaced = settings.flag("tokenize_chinese_chars")?.unwrap_or(true);
                let lower = fixed.or(settings.flag("do_lower_case")?).unwrap_or(true);
                vec![words(spaced, settings.flag("strip_accents")?, lower)]
            }
            Normal::Cased => vec![words(true, Some(false), false)],
            Normal::Mapped => characters.cloned().map(NormalizerWrapper::from).into_iter().collect(),
            Normal::Composed => vec![NFC.into()],
            Normal::Plain => match settings.flag("keep_accents")?.unwrap_or(false) {
                true => Vec::new(),
                false => vec![NFKD.into(), StripAccents.into()],
            },
            Normal::Lower(usual) => match settings.flag("do_lower_case")?.unwrap_or(usual) {
                true => vec![Lowercase.into()],
                false => Vec::new(),
            },
            Normal::Text(from, to) => replaced(ReplacePattern::String(from.into()), to),
            Normal::Pattern(from, to) => replaced(ReplacePattern::Regex(from.into()), to),
            Normal::Trimmed => vec![Strip::new(false, true).into()],
        })
    }
}

/// The steps that unify quotes; each changes characters inside a word.
pub(super) const QUOTES: [Normal; 2] = [Normal::Text("``", "\""), Normal::Text("''", "\"")];

/// [`QUOTES`] as the library's.
pub(in super::super) fn quotes() -> Vec<Replace> {
    let texts =
        QUOTES.iter().filter_map(|step| if let Normal::Text(from, to) = step { Some((from, to)) } else { None });
    texts.flat_map(|(from, to)| Replace::new(*from, *to)).collect()
}

/// The pre-tokenizer of an older file of Mistral's with [`MENDED`] words.
pub(in super::super) fn mended(own: PreTokenizerWrapper) -> Option<PreTokenizerWrapper> {
    use tokenizers::pre_tokenizers::split::Split;
    let words = Split::new(SplitPattern::Regex(MENDED.into()), Isolated, false).ok()?.into();
    let after = match own {
        PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().skip(1).cloned().collect(),
        PreTokenizerWrapper::Metaspace(_) => vec![ByteLevel::new(false, true, false).into()],
        other => vec![other],
    };
    Some(Sequence::new([words].into_iter().chain(after).collect()).into())
}

/// A step that splits a text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Split {
    /// White space apart and removed, marks apart, as in BERT.
    Words,
    /// Bytes in place of characters; with `words` also GPT-2's words, each with the space before it.
    Bytes { words: bool },
    /// What a pattern matches, and what is between, apart.
    Pattern(&'static str),
    /// Behind each of these characters.
    After(char),
    /// At white space, which is removed.
    Spaces,
    /// Marks apart, if `split_by_punct`.
    Marks,
    /// Each digit apart.
    Digits,
    /// `▁` in place of each space, and before a text.
    Spaced(Spaced),
}

/// `▁` in place of each space.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Spaced {
    /// Where it stands, too, if a space is put before a text, and if not.
    pub before: [Before; 2],
    /// Whether the text is split before each.
    pub split: bool,
}

/// Parts of a text that have `▁` before them; added tokens divide a text into parts.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Before {
    All,
    First,
    /// The first, or all if `legacy`.
    FirstUnlessLegacy,
    None,
}

impl Split {
    /// The library's step, if the settings ask for it. No pattern of a class is refused.
    pub fn of(self, settings: &Settings, prefix: bool) -> Result<Option<PreTokenizerWrapper>> {
        use tokenizers::pre_tokenizers::split::Split as Library;
        let pattern = |pattern: SplitPattern, delimiter| Library::new(pattern, delimiter, false).ok().map(Into::into);
        Ok(match self {
            Split::Words => Some(BertPreTokenizer.into()),
            Split::Bytes { words } => Some(ByteLevel::new(prefix, true, words).into()),
            Split::Pattern(text) => pattern(SplitPattern::Regex(text.into()), Isolated),
            Split::After(character) => pattern(SplitPattern::String(character.into()), MergedWithPrevious),
            Split::Spaces => Some(WhitespaceSplit.into()),
            Split::Marks => settings.flag("split_by_punct")?.unwrap_or(false).then(|| Punctuation::default().into()),
            Split::Digits => Some(Digits::new(true).into()),
            Split::Spaced(Spaced { before: [with, without], split }) => {
                let scheme = match if prefix { with } else { without } {
                    Before::FirstUnlessLegacy if settings.flag("legacy")?.unwrap_or(false) => PrependScheme::Always,
                    Before::FirstUnlessLegacy | Before::First => PrependScheme::First,
                    Before::All => PrependScheme::Always,
                    Before::None => PrependScheme::Never,
                };
                Some(Metaspace::new('▁', scheme, split).into())
            }
        })
    }
}
