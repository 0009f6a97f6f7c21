//! The rows of classes whose pieces are those of SentencePiece's Unigram models.

use super::rows::{AS_STORED, MARKS, OF_BYTES};
use super::steps::{Before, Normal, QUOTES, Spaced, Split};
use super::{Around, Class, Conversion, Decoded, Model, Pair, Piece, Prefix, Unknown};

const BOUNDS: Around = Around::Roles(["bos_token", "eos_token"]);

/// `▁` before all parts of a text, or before none.
const SPACED: Split = Split::Spaced(Spaced { before: [Before::All, Before::None], split: true });
const SPACED_WORDS: &[Split] = &[Split::Spaces, SPACED];

/// Special tokens in place of the first of a SentencePiece file.
const FIRST: &[Piece] = &[
    Piece::Role("bos_token", "<s>"),
    Piece::Role("pad_token", "<pad>"),
    Piece::Role("eos_token", "</s>"),
    Piece::Role("unk_token", "<unk>"),
];
const FIRST_UNUSED: &[Piece] = &[
    Piece::Text("<s>NOTUSED", 0.0),
    Piece::Role("pad_token", "<pad>"),
    Piece::Text("</s>NOTUSED", 0.0),
    Piece::Role("unk_token", "<unk>"),
    Piece::Text("<unk>NOTUSED", -100.0),
];

const OF_SENTENCES: Class = Class {
    names: &["XLMRobertaTokenizer"],
    model: Model::Scored(Unknown::Id(3)),
    normal: &[Normal::Mapped],
    splits: SPACED_WORDS,
    prefix: Prefix::Asked(true),
    around: BOUNDS,
    files: &["sentencepiece.bpe.model"],
    conversion: Conversion { first: FIRST, left_out: 3, last: &[Piece::Role("mask_token", "<mask>")] },
    decoded: Decoded::Spaced,
    ..OF_BYTES
};

pub(super) static SENTENCES: [Class; 7] = [
    OF_SENTENCES,
    Class {
        names: &["CamembertTokenizer"],
        model: Model::Scored(Unknown::Named),
        mask_takes_spaces: true,
        extra: &["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"],
        conversion: Conversion { first: FIRST_UNUSED, left_out: 1, last: &[Piece::Role("mask_token", "<mask>")] },
        ..OF_SENTENCES
    },
    Class {
        names: &["AlbertTokenizer"],
        model: Model::Scored(Unknown::Id(1)),
        normal: &[QUOTES[0], QUOTES[1], Normal::Plain, Normal::Lower(true), Normal::Mapped],
        tokens: ["[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"],
        around: Around::FileOrRoles(["cls_token", "sep_token"]),
        pair: Pair::Second,
        files: &["spiece.model"],
        conversion: AS_STORED,
        ..OF_SENTENCES
    },
    Class {
        names: &["BigBirdTokenizer"],
        model: Model::Scored(Unknown::Unscored(100)),
        normal: &[Normal::Pattern(" {2,}", "▁")],
        splits: &[SPACED],
        tokens: ["<s>", "</s>", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"],
        mask_takes_spaces: true,
        around: MARKS,
        pair: Pair::Second,
        files: &["spiece.model"],
        conversion: AS_STORED,
        ..OF_SENTENCES
    },
    Class {
        names: &["BarthezTokenizer"],
        normal: &[Normal::Pattern(r"\s{2,}|[\n\r\t]", " "), Normal::Composed, Normal::Trimmed],
        splits: &[SPACED],
        mask_takes_spaces: true,
        around: Around::Asked,
        pair: Pair::Begun,
        conversion: AS_STORED,
        ..OF_SENTENCES
    },
    Class {
        names: &["DebertaV2Tokenizer"],
        model: Model::Scored(Unknown::UnscoredOrAsked(1)),
        normal: &[Normal::Lower(false), Normal::Pattern(r"\s{2,}|[\n\r\t]", " "), Normal::Composed, Normal::Trimmed],
        splits: &[Split::Marks, Split::Spaced(Spaced { before: [Before::All, Before::First], split: true })],
        tokens: ["[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"],
        around: MARKS,
        pair: Pair::Second,
        gives_segments: true,
        files: &["spm.model"],
        conversion: AS_STORED,
        ..OF_SENTENCES
    },
    Class {
        names: &["T5Tokenizer"],
        model: Model::Scored(Unknown::Id(2)),
        prefix: Prefix::Always,
        tokens: ["", "</s>", "<unk>", "", "<pad>", "", ""],
        extra_ids: Some(100),
        around: Around::Roles(["", "eos_token"]),
        pair: Pair::Joined,
        files: &["spiece.model"],
        conversion: Conversion { last: &[Piece::Numbered], ..AS_STORED },
        ..OF_SENTENCES
    },
];
