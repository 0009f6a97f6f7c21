//! The reference's tokenizer classes that build their tokenizer in code, as data.
//!
//! Such a class reads the pieces, the added tokens and the character map from tokenizer.json; normaliser,
//! pre-tokenizer, template and the model's settings follow from the class and the arguments in tokenizer_config.json.
//! For any other class tokenizer.json is used unchanged.

mod rows;
mod sentences;
mod steps;

use super::Side;
use super::special::ROLES;
pub(super) use rows::MENDED;
use rows::{AS_IT_IS, CODED, OVER_CHARACTERS, OVERRULED, WORDS};
use sentences::SENTENCES;
pub(super) use steps::{Before, Decoded, Normal, QUOTES, Spaced, Split};

/// Description of the tokenizer that a class builds.
pub(super) struct Class {
    /// Names of the class and its aliases, each without the suffix `Fast`.
    names: &'static [&'static str],
    pub model: Model,
    /// The steps of normalisation, in order.
    pub normal: &'static [Normal],
    /// The steps that split a text, in order.
    pub splits: &'static [Split],
    /// Whether a space is put before a text.
    pub prefix: Prefix,
    /// The default token of each role, in the order of [`ROLES`]; empty where there is none.
    tokens: [&'static str; ROLES.len()],
    /// Whether a mask token given as a plain string also consumes the spaces before it.
    pub mask_takes_spaces: bool,
    /// Default special tokens without a role.
    pub extra: &'static [&'static str],
    /// Default number of special tokens `<extra_id_0>`, `<extra_id_1>`, ..., which `extra_ids` sets; `None` for a class
    /// without them.
    pub extra_ids: Option<usize>,
    /// The tokens around every text.
    pub around: Around,
    /// What a second text adds to them.
    pub pair: Pair,
    /// Whether segments are passed to the model.
    pub gives_segments: bool,
    /// Whether its special tokens are added once more as plain strings, which drops the options that they were given.
    pub plain_specials: bool,
    /// The side of padding unless a file says otherwise.
    pub padding_side: Side,
    /// The files of its vocabulary in a folder without tokenizer.json.
    pub files: &'static [&'static str],
    /// What becomes of the pieces of a SentencePiece file.
    pub conversion: Conversion,
    /// How tokens become a text again.
    pub decoded: Decoded,
    /// Whether model, normaliser and splitting are those of tokenizer.json, if there is one.
    pub keeps: bool,
}

/// The tokens that a class adds around every text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Around {
    /// The tokens of two roles, one before and one after; an empty role is none.
    Roles([&'static str; 2]),
    /// The same, with these ids whatever the tokens' own are.
    Numbered([&'static str; 2], [u32; 2]),
    /// Those in tokenizer.json; without that file, those selected by `add_bos_token` and `add_eos_token`.
    Asked,
    /// Those selected by `add_bos_token` and `add_eos_token`, which count only in a folder without tokenizer.json.
    Flags,
    /// Those in tokenizer.json; if it has none, the tokens of two roles, which must be pieces in either case.
    FileOrRoles([&'static str; 2]),
    /// The token of a role after a text, if the flag `add_` of its name says so, whatever files there are.
    Asking(&'static str),
}

/// What becomes of the pieces of a SentencePiece file: some before them in place of the first so many, and some after them.
pub(super) struct Conversion {
    pub first: &'static [Piece],
    pub left_out: usize,
    pub last: &'static [Piece],
}

/// A piece that a class puts beside those of a SentencePiece file.
pub(super) enum Piece {
    /// The token of a role, or this, with a score of 0.
    Role(&'static str, &'static str),
    /// A text with its score.
    Text(&'static str, f64),
    /// The special tokens `<extra_id_N>`, the last first, each with a score of 0.
    Numbered,
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
pub(super) enum Model {
    /// WordPiece.
    Words,
    /// BPE.
    Merged(Merging),
    /// Unigram.
    Scored(Unknown),
}

/// Settings of BPE.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Merging {
    /// Whether a character that is no piece is the unknown token; otherwise it is left out.
    pub unknown: bool,
    /// Whether unknown tokens in a row are one.
    pub fused: bool,
    /// Whether a character that is no piece is the pieces of its bytes, `<0x00>` to `<0xFF>`, if they are pieces.
    pub bytes: bool,
    /// What follows the last character of a word in the pieces; may be empty.
    pub end: &'static str,
}

/// The piece of a Unigram model that represents unknown text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Unknown {
    /// The piece with this id, whatever its name.
    Id(usize),
    /// The first piece with the name of the unknown token; the first piece if there is none.
    Named,
    /// The piece with the name of the unknown token and a score of 0; otherwise the piece with this id.
    Unscored(usize),
    /// The same, but the setting `unk_id` wins over this id.
    UnscoredOrAsked(usize),
}

/// Whether a space is put before a text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Prefix {
    Always,
    /// As `add_prefix_space` says, by default so.
    Asked(bool),
}

/// What is known of the name of a class.
pub(super) enum Named {
    /// It builds its tokenizer itself.
    Built(&'static Class),
    /// It uses tokenizer.json unchanged.
    AsItIs,
    /// It is Python code throughout.
    Coded,
    /// Nothing.
    Unheard,
}

impl Class {
    /// The class with this name, with or without the suffix `Fast`.
    pub fn named(name: &str) -> Named {
        let name = name.strip_suffix("Fast").unwrap_or(name);
        match WORDS.iter().chain(&SENTENCES).find(|class| class.names.contains(&name)) {
            Some(class) => Named::Built(class),
            None if AS_IT_IS.contains(&name) => Named::AsItIs,
            None if CODED.contains(&name) => Named::Coded,
            None => Named::Unheard,
        }
    }

    /// The class with this name, if it builds its tokenizer itself.
    pub fn built(name: &str) -> Option<&'static Class> {
        if let Named::Built(class) = Class::named(name) { Some(class) } else { None }
    }

    /// Whether a tokenizer.json over bytes is used unchanged where a file names this class.
    pub fn yields_to_bytes(name: &str) -> bool {
        name.strip_suffix("Fast").unwrap_or(name) == OVER_CHARACTERS
    }

    /// Whether a model of this `model_name` has the class of its `model_type` whatever a file names.
    pub fn overrules(model_name: &str) -> bool {
        OVERRULED.contains(&model_name)
    }

    /// The class where nothing names one.
    pub fn usual() -> &'static Class {
        &WORDS[0]
    }

    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// The class' default token for a role.
    pub fn token(&self, role: &str) -> Option<&'static str> {
        let place = ROLES.iter().position(|known| *known == role)?;
        Some(self.tokens[place]).filter(|token| !token.is_empty())
    }

    /// Whether unknown text is the unknown token, which must then be there.
    pub fn needs_unknown(&self) -> bool {
        matches!(self.model, Model::Words | Model::Merged(Merging { unknown: true, .. }))
    }
}
