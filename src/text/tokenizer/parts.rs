//! The parts of a class' tokenizer: the library's normaliser, pre-tokenizer, model and decoder.

use tokenizers::SplitDelimiterBehavior::{Isolated, MergedWithPrevious};
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::bpe::BPEDecoder;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip as StripDecoder;
use tokenizers::decoders::wordpiece::WordPiece as WordPieceDecoder;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::{BPE, Merges};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::precompiled::Precompiled;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::normalizers::utils::{Lowercase, Sequence as Normalizers};
use tokenizers::normalizers::{BertNormalizer, NFC, NFKD, NormalizerWrapper, Strip, StripAccents};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split as Splitter, SplitPattern};
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;

use super::classes::{Before, Class, Decoded, MENDED, Merging, Model, Normal, Prefix, QUOTES, Spaced, Split, Unknown};
use super::settings::Settings;
use super::vocabulary::Pieces;
use crate::Result;

impl Class {
    pub fn normalizer(
        &self,
        settings: &Settings,
        characters: Option<Precompiled>,
    ) -> Result<Option<NormalizerWrapper>> {
        let mut steps = Vec::new();
        for step in self.normal {
            steps.extend(step.of(settings, characters.as_ref())?);
        }
        Ok(match steps.len() {
            0 | 1 => steps.pop(),
            _ => Some(Normalizers::new(steps).into()),
        })
    }

    pub fn pre_tokenizer(&self, settings: &Settings) -> Result<Option<PreTokenizerWrapper>> {
        let prefix = match self.prefix {
            Prefix::Always => true,
            Prefix::Asked(usual) => settings.flag("add_prefix_space")?.unwrap_or(usual),
        };
        let mut steps = Vec::new();
        for step in self.splits {
            steps.extend(step.of(settings, prefix)?);
        }
        Ok(match steps.len() {
            0 | 1 => steps.pop(),
            _ => Some(Sequence::new(steps).into()),
        })
    }

    /// The model over a vocabulary; `unknown` is the name of the unknown token, and its id in the settings.
    pub fn model(
        &self,
        pieces: Pieces,
        merges: Merges,
        (unknown, id): (&str, Option<usize>),
    ) -> tokenizers::Result<ModelWrapper> {
        Ok(match self.model {
            Model::Words => WordPiece::builder().vocab(pieces.numbered()).unk_token(unknown.to_owned()).build()?.into(),
            Model::Merged(Merging { unknown: has_unknown, fused, bytes, end }) => {
                let mut model = BPE::builder().vocab_and_merges(pieces.numbered(), merges).fuse_unk(fused);
                if has_unknown {
                    model = model.unk_token(unknown.to_owned());
                }
                if !end.is_empty() {
                    model = model.end_of_word_suffix(end.to_owned());
                }
                model.byte_fallback(bytes).build()?.into()
            }
            Model::Scored(place) => {
                let pieces = pieces.scored().ok_or("its pieces have no scores")?;
                let unscored = |(piece, score): &(String, f64)| piece == unknown && *score == 0.0;
                let id = match place {
                    Unknown::Id(id) => id,
                    Unknown::Unscored(usual) => pieces.iter().position(unscored).unwrap_or(usual),
                    Unknown::UnscoredOrAsked(usual) => pieces.iter().position(unscored).or(id).unwrap_or(usual),
                    Unknown::Named => pieces.iter().position(|(piece, _)| piece == unknown).unwrap_or(0),
                };
                Unigram::from(pieces, Some(id), false)?.into()
            }
        })
    }

    /// The decoder, where `splitter` is the pre-tokenizer.
    pub fn decoder(&self, splitter: Option<&PreTokenizerWrapper>) -> Option<DecoderWrapper> {
        Some(match self.decoded {
            Decoded::Words => WordPieceDecoder::new("##".to_owned(), true).into(),
            Decoded::Bytes => ByteLevel::default().into(),
            Decoded::Ended => BPEDecoder::new("</w>".to_owned()).into(),
            Decoded::Spaced => marks(splitter?)?.into(),
            Decoded::Fallback => {
                let spaces = Replace::new("▁", " ").ok()?.into();
                let begun = splitter.and_then(marks).is_some_and(|marks| marks.prepend_scheme != PrependScheme::Never);
                let start = begun.then(|| StripDecoder::new(' ', 1, 0).into());
                let steps = [spaces, ByteFallback::new().into(), Fuse::new().into()];
                Decoders::new(steps.into_iter().chain(start).collect()).into()
            }
        })
    }
}

/// The marks that a pre-tokenizer puts before words.
fn marks(splitter: &PreTokenizerWrapper) -> Option<Metaspace> {
    match splitter {
        PreTokenizerWrapper::Metaspace(marks) => Some(marks.clone()),
        PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().find_map(marks),
        _ => None,
    }
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

impl Split {
    /// The library's step, if the settings ask for it. No pattern of a class is refused.
    pub fn of(self, settings: &Settings, prefix: bool) -> Result<Option<PreTokenizerWrapper>> {
        let pattern = |pattern: SplitPattern, delimiter| Splitter::new(pattern, delimiter, false).ok().map(Into::into);
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

/// [`QUOTES`] as the library's.
pub(super) fn quotes() -> Vec<Replace> {
    let texts =
        QUOTES.iter().filter_map(|step| if let Normal::Text(from, to) = step { Some((from, to)) } else { None });
    texts.flat_map(|(from, to)| Replace::new(*from, *to)).collect()
}

/// The pre-tokenizer of an older file of Mistral's with [`MENDED`] words.
pub(super) fn mended(own: PreTokenizerWrapper) -> Option<PreTokenizerWrapper> {
    let words = Splitter::new(SplitPattern::Regex(MENDED.into()), Isolated, false).ok()?.into();
    let after = match own {
        PreTokenizerWrapper::Sequence(steps) => steps.as_ref().iter().skip(1).cloned().collect(),
        PreTokenizerWrapper::Metaspace(_) => vec![ByteLevel::new(false, true, false).into()],
        other => vec![other],
    };
    Some(Sequence::new([words].into_iter().chain(after).collect()).into())
}
