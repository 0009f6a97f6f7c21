//! The reference's tokenizer classes that build their tokenizer in code, as data.
//!
//! Such a class reads the pieces, the added tokens and the character map from tokenizer.json; normaliser,
//! pre-tokenizer, template and the model's settings follow from the class and the arguments in tokenizer_config.json.
//! For any other class tokenizer.json is used unchanged.

use tokenizers::SplitDelimiterBehavior;
use tokenizers::models::ModelWrapper;
use tokenizers::models::bpe::{BPE, Merges};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::precompiled::Precompiled;
use tokenizers::normalizers::replace::{Replace, ReplacePattern};
use tokenizers::normalizers::utils::{Lowercase, Sequence as Steps};
use tokenizers::normalizers::{BertNormalizer, NFC, NFKD, NormalizerWrapper, Strip, StripAccents};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;

use super::settings::Settings;
use super::special::ROLES;
use super::vocabulary::Pieces;
use crate::Result;

/// Description of the tokenizer that a class builds.
pub(super) struct Class {
    /// Names of the class and its aliases, each without the suffix `Fast`.
    names: &'static [&'static str],
    pub kind: Kind,
    /// The default token of each role, in the order of [`ROLES`]; empty where there is none.
    tokens: [&'static str; ROLES.len()],
    /// Whether a mask token given as a plain string also consumes the spaces before it.
    pub mask_takes_spaces: bool,
    /// Default special tokens without a role.
    pub extra: &'static [&'static str],
    /// Default number of special tokens `<extra_id_0>`, `<extra_id_1>`, ..., which `extra_ids` sets; `None` for a class
    /// without them.
    pub extra_ids: Option<usize>,
    /// Whether `add_prefix_space` counts.
    prefix_on_request: bool,
    /// The tokens around every text.
    pub around: Around,
    /// What a second text adds to them.
    pub pair: Pair,
    /// Whether segments are passed to the model.
    pub gives_segments: bool,
    /// Whether its special tokens are added once more as plain strings, which drops the options that they were given.
    pub plain_specials: bool,
}

/// The tokens that a class adds around every text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Around {
    /// The tokens of two roles, one before and one after; an empty role is none.
    Roles([&'static str; 2]),
    /// Those in tokenizer.json; without that file, those selected by `add_bos_token` and `add_eos_token`.
    Asked,
    /// Those in tokenizer.json; if it has none, the tokens of two roles, which must be pieces in either case.
    FileOrRoles([&'static str; 2]),
}

/// How the second text of a pair follows the first and the token after it; the token after a text follows it, too.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pair {
    /// At once, in segment 1.
    Second,
    /// After the token before a text, in segment 1.
    Begun,
    /// After the token after a text once more, in segment 0.
    Doubled,
    /// At once, in segment 0.
    Joined,
}

impl Pair {
    /// The template of two texts `A` and `B` between the tokens called `before` and `after`, of which either may be empty.
    pub fn template(self, before: &str, after: &str) -> String {
        let (between, segment) = match self {
            Pair::Second => ("", 1),
            Pair::Begun => (before, 1),
            Pair::Doubled => (after, 0),
            Pair::Joined => ("", 0),
        };
        let steps = [(before, 0), ("$A", 0), (after, 0), (between, segment), ("$B", segment), (after, segment)];
        let present = steps.iter().filter(|(step, _)| !step.is_empty());
        present.map(|(step, segment)| format!("{step}:{segment}")).collect::<Vec<_>>().join(" ")
    }
}

/// How a text is split into pieces.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// WordPiece over words and punctuation, after BERT's normalisation.
    Words,
    /// BPE over the bytes of words.
    Bytes(Words),
    /// Unigram over words prefixed by a mark, after normalisation.
    Sentences(Unknown, Letters),
}

/// What splits a text into the words of a BPE.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Words {
    /// Each includes the space before it, as in GPT-2.
    Spaced,
    /// After letters are composed; each includes the character before it, digits are alone, as in [`ALONE`].
    Composed,
}

/// Contractions, words with one other character before them, single digits, runs of marks, and white space.
const ALONE: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Normalisation, and what splits a text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Letters {
    /// The file's own character map, then white space.
    Kept,
    /// Quotes unified, and, unless asked otherwise, no accents and no capitals, as in ALBERT; then the same.
    Plain,
    /// Runs of white space as one space and composed letters, instead of a character map, then spaces and, if asked,
    /// punctuation, as in DeBERTa.
    Composed,
}

/// The piece of a Unigram model that represents unknown text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unknown {
    /// The piece with this id, whatever its name.
    Id(usize),
    /// The first piece with the name of the unknown token; the first piece if there is none.
    Named,
    /// The piece with the name of the unknown token and a score of 0; otherwise the piece with the id `unk_id`, default
    /// 1.
    Unscored,
}

const OF_WORDS: Class = Class {
    names: &[
        "BertTokenizer",
        "ElectraTokenizer",
        "LayoutLMTokenizer",
        "LxmertTokenizer",
        "MobileBertTokenizer",
        "SqueezeBertTokenizer",
    ],
    kind: Kind::Words,
    tokens: ["", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"],
    mask_takes_spaces: false,
    extra: &[],
    extra_ids: None,
    prefix_on_request: true,
    around: Around::Roles(["cls_token", "sep_token"]),
    pair: Pair::Second,
    gives_segments: true,
    plain_specials: false,
};

const OF_BYTES: Class = Class {
    names: &["RobertaTokenizer", "BartTokenizer", "LEDTokenizer", "LongformerTokenizer", "MvpTokenizer"],
    kind: Kind::Bytes(Words::Spaced),
    tokens: ["<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"],
    pair: Pair::Doubled,
    gives_segments: false,
    ..OF_WORDS
};

static CLASSES: [Class; 11] = [
    OF_WORDS,
    Class { names: &["DistilBertTokenizer"], gives_segments: false, ..OF_WORDS },
    OF_BYTES,
    Class {
        names: &["GPT2Tokenizer"],
        tokens: ["<|endoftext|>", "<|endoftext|>", "<|endoftext|>", "", "", "", ""],
        around: Around::Asked,
        pair: Pair::Begun,
        ..OF_BYTES
    },
    Class {
        names: &["Qwen2Tokenizer"],
        kind: Kind::Bytes(Words::Composed),
        tokens: ["", "<|endoftext|>", "<|endoftext|>", "", "<|endoftext|>", "", ""],
        around: Around::Asked,
        pair: Pair::Begun,
        plain_specials: true,
        ..OF_BYTES
    },
    Class {
        names: &["MPNetTokenizer"],
        kind: Kind::Words,
        tokens: ["<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"],
        mask_takes_spaces: true,
        ..OF_BYTES
    },
    Class {
        names: &["XLMRobertaTokenizer"],
        kind: Kind::Sentences(Unknown::Id(3), Letters::Kept),
        around: Around::Roles(["bos_token", "eos_token"]),
        ..OF_BYTES
    },
    Class {
        names: &["CamembertTokenizer"],
        kind: Kind::Sentences(Unknown::Named, Letters::Kept),
        mask_takes_spaces: true,
        extra: &["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"],
        around: Around::Roles(["bos_token", "eos_token"]),
        ..OF_BYTES
    },
    Class {
        names: &["AlbertTokenizer"],
        kind: Kind::Sentences(Unknown::Id(1), Letters::Plain),
        tokens: ["[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"],
        around: Around::FileOrRoles(["cls_token", "sep_token"]),
        pair: Pair::Second,
        ..OF_BYTES
    },
    Class {
        names: &["DebertaV2Tokenizer"],
        kind: Kind::Sentences(Unknown::Unscored, Letters::Composed),
        tokens: ["[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"],
        pair: Pair::Second,
        gives_segments: true,
        ..OF_BYTES
    },
    Class {
        names: &["T5Tokenizer"],
        kind: Kind::Sentences(Unknown::Id(2), Letters::Kept),
        tokens: ["", "</s>", "<unk>", "", "<pad>", "", ""],
        extra_ids: Some(100),
        prefix_on_request: false,
        around: Around::Roles(["", "eos_token"]),
        pair: Pair::Joined,
        ..OF_BYTES
    },
];

impl Class {
    /// The class with this name, if it builds its tokenizer in code.
    pub fn named(name: &str) -> Option<&'static Class> {
        let name = name.strip_suffix("Fast").unwrap_or(name);
        CLASSES.iter().find(|class| class.names.contains(&name))
    }

    /// The class where nothing names one.
    pub fn usual() -> &'static Class {
        &CLASSES[0]
    }

    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// The class' default token for a role.
    pub fn token(&self, role: &str) -> Option<&'static str> {
        let place = ROLES.iter().position(|known| *known == role)?;
        Some(self.tokens[place]).filter(|token| !token.is_empty())
    }

    pub fn normalizer(
        &self,
        settings: &Settings,
        characters: Option<Precompiled>,
    ) -> Result<Option<NormalizerWrapper>> {
        Ok(match self.kind {
            Kind::Words => {
                let spaced = settings.flag("tokenize_chinese_chars")?.unwrap_or(true);
                let lower = settings.flag("do_lower_case")?.unwrap_or(true);
                Some(BertNormalizer::new(true, spaced, settings.flag("strip_accents")?, lower).into())
            }
            Kind::Bytes(Words::Spaced) => None,
            Kind::Bytes(Words::Composed) => Some(NFC.into()),
            Kind::Sentences(_, Letters::Kept) => characters.map(NormalizerWrapper::from),
            Kind::Sentences(_, Letters::Plain) => Some(plain_letters(settings, characters)?),
            Kind::Sentences(_, Letters::Composed) => Some(composed_letters(settings)?),
        })
    }

    pub fn pre_tokenizer(&self, settings: &Settings) -> Result<PreTokenizerWrapper> {
        let prefix = settings.flag("add_prefix_space")?.filter(|_| self.prefix_on_request);
        Ok(match self.kind {
            Kind::Words => BertPreTokenizer.into(),
            Kind::Bytes(Words::Spaced) => ByteLevel::new(prefix.unwrap_or(false), true, true).into(),
            Kind::Bytes(Words::Composed) => {
                let bytes = ByteLevel::new(prefix.unwrap_or(false), true, false).into();
                let words = Split::new(SplitPattern::Regex(ALONE.into()), SplitDelimiterBehavior::Isolated, false).ok();
                Sequence::new(words.map(PreTokenizerWrapper::from).into_iter().chain([bytes]).collect()).into()
            }
            Kind::Sentences(_, Letters::Composed) => {
                let scheme = if prefix.unwrap_or(true) { PrependScheme::Always } else { PrependScheme::First };
                let marks = settings.flag("split_by_punct")?.unwrap_or(false).then(|| Punctuation::default().into());
                let steps = marks.into_iter().chain([Metaspace::new('▁', scheme, true).into()]);
                Sequence::new(steps.collect()).into()
            }
            Kind::Sentences(..) => {
                let scheme = if prefix.unwrap_or(true) { PrependScheme::Always } else { PrependScheme::Never };
                Sequence::new(vec![WhitespaceSplit.into(), Metaspace::new('▁', scheme, true).into()]).into()
            }
        })
    }

    /// The model over a vocabulary; `unknown` is the name of the unknown token, and its id in the settings.
    pub fn model(
        &self,
        pieces: Pieces,
        merges: Merges,
        (unknown, id): (&str, Option<usize>),
    ) -> tokenizers::Result<ModelWrapper> {
        Ok(match self.kind {
            Kind::Words => WordPiece::builder().vocab(pieces.numbered()).unk_token(unknown.to_owned()).build()?.into(),
            Kind::Bytes(_) => BPE::builder().vocab_and_merges(pieces.numbered(), merges).build()?.into(),
            Kind::Sentences(place, _) => {
                let pieces = pieces.scored().ok_or("its pieces have no scores")?;
                let id = match place {
                    Unknown::Id(id) => id,
                    Unknown::Unscored => {
                        let unscored = |(piece, score): &(String, f64)| piece == unknown && *score == 0.0;
                        pieces.iter().position(unscored).or(id).unwrap_or(1)
                    }
                    Unknown::Named => pieces.iter().position(|(piece, _)| piece == unknown).unwrap_or(0),
                };
                Unigram::from(pieces, Some(id), false)?.into()
            }
        })
    }
}

/// The steps that unify quotes; each changes characters inside a word. Neither pattern is refused.
pub(super) fn quotes() -> Vec<Replace> {
    ["``", "''"].into_iter().flat_map(|quote| Replace::new(quote, "\"")).collect()
}

/// [`Letters::Composed`].
fn composed_letters(settings: &Settings) -> Result<NormalizerWrapper> {
    let spaces = Replace::new(ReplacePattern::Regex(r"\s{2,}|[\n\r\t]".into()), " ").ok().map(NormalizerWrapper::from);
    let lower = settings.flag("do_lower_case")?.unwrap_or(false).then(|| Lowercase.into());
    let last = [NFC.into(), Strip::new(false, true).into()];
    Ok(Steps::new(lower.into_iter().chain(spaces).chain(last).collect()).into())
}

/// [`Letters::Plain`], then the character map.
fn plain_letters(settings: &Settings, characters: Option<Precompiled>) -> Result<NormalizerWrapper> {
    let mut steps: Vec<_> = quotes().into_iter().map(NormalizerWrapper::from).collect();
    if !settings.flag("keep_accents")?.unwrap_or(false) {
        steps.extend([NFKD.into(), StripAccents.into()]);
    }
    steps.extend(settings.flag("do_lower_case")?.unwrap_or(true).then(|| Lowercase.into()));
    steps.extend(characters.map(NormalizerWrapper::from));
    Ok(Steps::new(steps).into())
}
