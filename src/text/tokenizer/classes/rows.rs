//! The rows of classes whose pieces are of words or of bytes: one for each class, or for classes that differ in their names
//! alone.

use super::steps::{Before, Normal, Spaced, Split};
use super::{Around, Class, Conversion, Decoded, Merging, Model, Pair, Prefix};
use crate::text::tokenizer::Side;

/// Names of classes that use tokenizer.json unchanged, without the suffix `Fast`.
pub(super) const AS_IT_IS: [&str; 5] =
    ["TokenizersBackend", "PreTrainedTokenizer", "PythonBackend", "BloomTokenizer", "MT5Tokenizer"];

/// Names of classes that are Python code throughout.
#[rustfmt::skip]
pub(super) const CODED: [&str; 38] = [
    "BartphoTokenizer", "BertGenerationTokenizer", "BertJapaneseTokenizer", "BertTokenizerLegacy", "BertweetTokenizer",
    "BioGptTokenizer", "BlenderbotSmallTokenizer", "ByT5Tokenizer", "CTRLTokenizer", "CanineTokenizer", "ClvpTokenizer",
    "CpmAntTokenizer", "CpmTokenizer", "DiaTokenizer", "EsmTokenizer", "FSMTTokenizer", "FastSpeech2ConformerTokenizer",
    "FlaubertTokenizer", "GPTNeoXJapaneseTokenizer", "GPTSw3Tokenizer", "M2M100Tokenizer", "MarianTokenizer",
    "MgpstrTokenizer", "MyT5Tokenizer", "PLBartTokenizer", "PerceiverTokenizer", "PhobertTokenizer", "ProphetNetTokenizer",
    "RoCBertTokenizer", "RoFormerTokenizer", "SiglipTokenizer", "Speech2TextTokenizer", "SpeechT5Tokenizer", "TapasTokenizer",
    "VitsTokenizer", "Wav2Vec2CTCTokenizer", "Wav2Vec2PhonemeCTCTokenizer", "XLMTokenizer",
];

/// The class that is for characters alone.
pub(super) const OVER_CHARACTERS: &str = "LlamaTokenizer";
/// Models, by `model_name`, whose files name a class that is not theirs.
pub(super) const OVERRULED: [&str; 1] = ["camembertv2-base"];

const BERT_TOKENS: [&str; 7] = ["", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"];
const ROBERTA_TOKENS: [&str; 7] = ["<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"];
const END: &str = "<|endoftext|>";

pub(super) const MARKS: Around = Around::Roles(["cls_token", "sep_token"]);

/// BPE over bytes, each of which is a piece.
pub(super) const OVER_BYTES: Merging = Merging { unknown: false, fused: false, bytes: false, end: "" };

const WORDS_AND_MERGES: &[&str] = &["vocab.json", "merges.txt"];

/// Contractions, words with one other character before them, single digits, runs of marks, and white space.
const ALONE: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The words of later models of Mistral, whose older files have others.
pub(in super::super) const MENDED: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The same as [`ALONE`], with marks of letters as letters.
const MARKED: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The pieces of a SentencePiece file as they are.
pub(super) const AS_STORED: Conversion = Conversion { first: &[], left_out: 0, last: &[] };

const OF_WORDS: Class = Class {
    names: &[
        "BertTokenizer",
        "ElectraTokenizer",
        "LayoutLMTokenizer",
        "LxmertTokenizer",
        "MobileBertTokenizer",
        "SqueezeBertTokenizer",
    ],
    model: Model::Words,
    normal: &[Normal::Words { lower: None }],
    splits: &[Split::Words],
    prefix: Prefix::Asked(false),
    tokens: BERT_TOKENS,
    mask_takes_spaces: false,
    extra: &[],
    extra_ids: None,
    around: MARKS,
    pair: Pair::Second,
    gives_segments: true,
    plain_specials: false,
    padding_side: Side::Right,
    files: &["vocab.txt"],
    conversion: AS_STORED,
    decoded: Decoded::Words,
    keeps: false,
};

pub(super) const OF_BYTES: Class = Class {
    names: &["RobertaTokenizer", "BartTokenizer", "LEDTokenizer", "LongformerTokenizer", "MvpTokenizer"],
    model: Model::Merged(OVER_BYTES),
    normal: &[],
    splits: &[Split::Bytes { words: true }],
    tokens: ROBERTA_TOKENS,
    pair: Pair::Doubled,
    gives_segments: false,
    files: WORDS_AND_MERGES,
    decoded: Decoded::Bytes,
    ..OF_WORDS
};

/// Decoders, which put around a text what tokenizer.json says.
const OF_DECODERS: Class = Class {
    names: &["GPT2Tokenizer", "CodeGenTokenizer"],
    tokens: [END, END, END, "", "", "", ""],
    around: Around::Asked,
    pair: Pair::Begun,
    ..OF_BYTES
};

const OF_QWEN: Class = Class {
    names: &["Qwen2Tokenizer"],
    normal: &[Normal::Composed],
    splits: &[Split::Pattern(ALONE), Split::Bytes { words: false }],
    tokens: ["", END, END, "", END, "", ""],
    plain_specials: true,
    ..OF_DECODERS
};

pub(super) static WORDS: [Class; 17] = [
    OF_WORDS,
    Class { names: &["DistilBertTokenizer"], gives_segments: false, ..OF_WORDS },
    Class {
        names: &["DPRQuestionEncoderTokenizer", "DPRContextEncoderTokenizer"],
        normal: &[Normal::Words { lower: Some(true) }],
        ..OF_WORDS
    },
    OF_BYTES,
    Class {
        names: &["BlenderbotTokenizer"],
        prefix: Prefix::Asked(true),
        mask_takes_spaces: true,
        around: Around::Asked,
        pair: Pair::Begun,
        ..OF_BYTES
    },
    Class {
        names: &["DebertaTokenizer"],
        tokens: ["[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"],
        gives_segments: true,
        ..OF_BYTES
    },
    OF_DECODERS,
    OF_QWEN,
    Class {
        names: &["GPTNeoXTokenizer"],
        normal: &[Normal::Composed],
        tokens: [END, END, END, "", "<|padding|>", "", ""],
        around: Around::Flags,
        ..OF_DECODERS
    },
    Class {
        names: &["CohereTokenizer"],
        normal: &[Normal::Composed],
        splits: &[Split::Digits, Split::Bytes { words: true }],
        tokens: ["<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", "<SEP>", "<PAD>", "<CLS>", "<MASK_TOKEN>"],
        padding_side: Side::Left,
        ..OF_DECODERS
    },
    Class {
        names: &["Qwen3_5Tokenizer"],
        normal: &[Normal::Composed],
        splits: &[Split::Pattern(MARKED), Split::Bytes { words: false }],
        tokens: ["", END, END, "", END, "", ""],
        ..OF_DECODERS
    },
    Class {
        names: &["LlamaTokenizer", "Phi3Tokenizer"],
        model: Model::Merged(Merging { unknown: false, fused: true, bytes: true, end: "" }),
        splits: &[Split::Spaced(Spaced { before: [Before::FirstUnlessLegacy, Before::None], split: false })],
        prefix: Prefix::Asked(true),
        tokens: ["<s>", "</s>", "<unk>", "", "", "", ""],
        padding_side: Side::Left,
        files: &["tokenizer.model"],
        decoded: Decoded::Fallback,
        ..OF_DECODERS
    },
    Class {
        names: &["GemmaTokenizer"],
        model: Model::Merged(Merging { unknown: true, fused: true, bytes: true, end: "" }),
        normal: &[Normal::Text(" ", "▁")],
        splits: &[Split::After(' ')],
        tokens: ["<bos>", "<eos>", "<unk>", "", "<pad>", "", "<mask>"],
        padding_side: Side::Left,
        files: &["tokenizer.model"],
        decoded: Decoded::Fallback,
        ..OF_DECODERS
    },
    Class {
        names: &["HerbertTokenizer"],
        model: Model::Merged(Merging { unknown: true, end: "</w>", ..OVER_BYTES }),
        normal: &[Normal::Cased],
        splits: &[Split::Words],
        tokens: ["", "", "<unk>", "</s>", "<pad>", "<s>", "<mask>"],
        around: Around::Numbered(["cls_token", "sep_token"], [0, 2]),
        pair: Pair::Second,
        decoded: Decoded::Ended,
        ..OF_BYTES
    },
    Class {
        names: &["MPNetTokenizer"],
        model: Model::Words,
        normal: &[Normal::Words { lower: None }],
        splits: &[Split::Words],
        tokens: ["<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"],
        mask_takes_spaces: true,
        files: &["vocab.txt"],
        decoded: Decoded::Words,
        ..OF_BYTES
    },
    // Their other parts are those of tokenizer.json, if there is one.
    Class { names: &["ConvBertTokenizer"], keeps: true, ..OF_WORDS },
    Class {
        names: &["tokenization_qwen.Qwen2Tokenizer"],
        keeps: true,
        around: Around::Asking("eos_token"),
        pair: Pair::Second,
        plain_specials: false,
        ..OF_QWEN
    },
];
