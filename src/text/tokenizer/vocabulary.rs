//! The contents of a folder's files for a class that builds its tokenizer in code.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tokenizers::models::bpe::{Merges, Vocab};
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::precompiled::Precompiled;
use tokenizers::processors::PostProcessorWrapper;

use super::classes::{Class, Model as Form, Piece};
use super::files::{fault, read};
use super::sentence_pieces::{Kind, SentencePieces, merges};
use super::settings::{Baked, Settings};
use super::special::Added;
use super::{Side, guarded};
use crate::Result;
use crate::error::brief;

/// The pieces of a model.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Pieces {
    Numbered(HashMap<String, u32>),
    /// Pieces with the logarithm of their frequency; the index of a piece is its id.
    Scored(Vec<(String, f64)>),
}

impl Pieces {
    pub fn numbered(self) -> Vocab {
        match self {
            Pieces::Numbered(pieces) => pieces.into_iter().collect(),
            Pieces::Scored(pieces) => (0..).zip(pieces).map(|(id, (piece, _))| (piece, id)).collect(),
        }
    }

    pub fn scored(self) -> Option<Vec<(String, f64)>> {
        match self {
            Pieces::Numbered(_) => None,
            Pieces::Scored(pieces) => Some(pieces),
        }
    }
}

/// All data that a class reads from the files.
pub(super) struct Source {
    pub pieces: Pieces,
    /// The merges of BPE.
    pub merges: Merges,
    /// The map applied to characters before look-up, for Unigram.
    pub characters: Option<Precompiled>,
    /// Added tokens with their ids.
    pub added: Vec<(u32, Added)>,
    pub baked: Baked,
    /// The post-processor of tokenizer.json.
    pub around: Option<PostProcessorWrapper>,
    /// The id of the unknown piece, where the file states it.
    pub unknown: Option<usize>,
    /// The file of the vocabulary.
    pub path: PathBuf,
}

/// The parts of tokenizer.json that a class uses.
#[derive(Deserialize)]
struct TokenizerFile {
    truncation: Option<Truncation>,
    padding: Option<Padding>,
    #[serde(default)]
    added_tokens: Vec<NumberedToken>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    post_processor: Value,
    model: Model,
}

#[derive(Deserialize)]
struct Truncation {
    #[serde(default)]
    direction: Side,
}

#[derive(Deserialize)]
struct Padding {
    #[serde(default)]
    direction: Side,
    pad_token: Option<String>,
}

#[derive(Deserialize)]
struct NumberedToken {
    id: u32,
    #[serde(flatten)]
    token: Added,
}

#[derive(Deserialize)]
struct Model {
    vocab: Pieces,
    #[serde(default)]
    merges: Vec<Merge>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    /// Both parts separated by one space, as in older files.
    Line(String),
}

impl Source {
    /// Reads tokenizer.json.
    pub fn of_file(path: &Path) -> Result<Self> {
        let unusable = |problem: String| fault(path, format!("is not a tokenizer: {}", brief(problem)));
        let file: TokenizerFile = serde_json::from_slice(&read(path)?).map_err(|e| unusable(e.to_string()))?;
        let merges = file.model.merges.into_iter().map(|merge| match merge {
            Merge::Pair(left, right) => Ok((left, right)),
            Merge::Line(line) => pair(&line).ok_or_else(|| unusable(format!("the merge {line:?} is not a pair"))),
        });
        let merges = merges.collect::<Result<_>>()?;
        let characters = character_map(&file.normalizer).map(|map| {
            // The map can only be parsed from text, so it is serialised again.
            guarded(|| Ok(serde_json::from_str(&map.to_string())?)).map_err(|e| unusable(e.to_string()))
        });
        Ok(Source {
            pieces: file.model.vocab,
            merges,
            characters: characters.transpose()?,
            added: file.added_tokens.into_iter().map(|numbered| (numbered.id, numbered.token)).collect(),
            baked: Baked {
                truncation_side: file.truncation.map(|truncation| truncation.direction),
                padding_side: file.padding.as_ref().map(|padding| padding.direction),
                tokens: file
                    .padding
                    .and_then(|padding| padding.pad_token)
                    .map(|pad| ("pad_token", pad))
                    .into_iter()
                    .collect(),
                ..Baked::default()
            },
            around: post_processor(file.post_processor).map_err(|e| unusable(e.to_string()))?,
            unknown: None,
            path: path.to_owned(),
        })
    }

    /// Reads the files of older folders instead: one piece per line, pieces and merges, or a file of SentencePiece's.
    pub fn of_folder(folder: &Path, class: &Class, settings: &Settings) -> Result<Self> {
        let names = class.files;
        let any = folder.join(PIECES_OF_ANY);
        if class.model != Form::Words && any.exists() {
            return Source::of_sentence_pieces(any, class, settings);
        }
        if names.iter().any(|name| !folder.join(name).exists()) {
            return Err(missing(folder, &format!(" and no {}", names.join(" with "))));
        }
        let path = folder.join(names[0]);
        if path.extension().is_some_and(|kind| kind == "model") {
            return Source::of_sentence_pieces(path, class, settings);
        }
        let unusable = |problem: String| fault(&path, format!("is not a vocabulary: {}", brief(problem)));
        let bytes = read(&path)?;
        let (pieces, merges) = match names.get(1) {
            None => {
                let pieces = WordPiece::read_bytes(&bytes).map_err(|e| unusable(e.to_string()))?;
                (pieces.into_iter().collect(), Vec::new())
            }
            Some(name) => {
                let pieces = serde_json::from_slice(&bytes).map_err(|e| unusable(e.to_string()))?;
                (pieces, merges_of(&folder.join(name))?)
            }
        };
        let (pieces, baked) = (Pieces::Numbered(pieces), Baked::default());
        Ok(Source { pieces, merges, characters: None, added: Vec::new(), baked, around: None, unknown: None, path })
    }

    /// Reads a file of SentencePiece's.
    fn of_sentence_pieces(path: PathBuf, class: &Class, settings: &Settings) -> Result<Self> {
        let stored = SentencePieces::read(&path)?;
        let (pieces, merges) = match class.model {
            Form::Merged(_) => {
                let pieces = stored.numbered();
                let merges = merges(&pieces);
                (Pieces::Numbered(pieces), merges)
            }
            _ => (Pieces::Scored(converted(stored.scored(), class, settings)?), Vec::new()),
        };
        let baked = Baked { extra: Some(extra(&stored)), ..Baked::default() };
        let characters = stored.characters().map_err(|problem| fault(&path, problem))?;
        let unknown = usize::try_from(stored.named[0].0).ok();
        Ok(Source { pieces, merges, characters, added: Vec::new(), baked, around: None, unknown, path })
    }
}

/// The file of SentencePiece's that is read for any class.
pub(super) const PIECES_OF_ANY: &str = "tokenizer.model";

/// The special tokens of a SentencePiece file, and those that are never divided.
pub(super) fn extra(stored: &SentencePieces) -> Vec<Added> {
    let added = stored.pieces.iter().filter(|piece| matches!(piece.kind, Kind::Control | Kind::Whole));
    added.map(|piece| Added::verbatim(&piece.text, piece.kind == Kind::Control)).collect()
}

/// A class' pieces from those of a SentencePiece file.
fn converted(stored: Vec<(String, f64)>, class: &Class, settings: &Settings) -> Result<Vec<(String, f64)>> {
    let conversion = &class.conversion;
    let mut pieces = Vec::new();
    let put = |pieces: &mut Vec<(String, f64)>, own: &Piece| {
        match own {
            Piece::Text(text, score) => pieces.push(((*text).to_owned(), *score)),
            Piece::Role(role, usual) => {
                let token = settings.token(role, Some(usual), Added::special)?;
                pieces.push((token.map_or_else(|| (*usual).to_owned(), |token| token.content), 0.0));
            }
            Piece::Numbered => {
                let last_first = (0..settings.extra_ids()?).rev();
                pieces.extend(last_first.map(|number| (format!("<extra_id_{number}>"), 0.0)));
            }
        }
        Ok(())
    };
    conversion.first.iter().try_for_each(|own| put(&mut pieces, own))?;
    pieces.extend(stored.into_iter().skip(conversion.left_out));
    conversion.last.iter().try_for_each(|own| put(&mut pieces, own))?;
    Ok(pieces)
}

fn post_processor(value: Value) -> tokenizers::Result<Option<PostProcessorWrapper>> {
    match value {
        Value::Null => Ok(None),
        // Through text, since the library cannot parse every post-processor from a value.
        value => guarded(|| Ok(serde_json::from_str(&value.to_string())?)).map(Some),
    }
}

/// The error for a folder without tokenizer.json; `instead` names the possible substitutes.
pub(super) fn missing(folder: &Path, instead: &str) -> crate::Error {
    let made = "save it with `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)` of transformers";
    fault(folder, format!("has no tokenizer.json{instead}; {made}"))
}

/// The first character map among the steps of a normaliser, in the reference's order of search.
fn character_map(normalizer: &Value) -> Option<&Value> {
    let steps = match normalizer.get("type")?.as_str()? {
        "Sequence" => normalizer.get("normalizers")?.as_array()?.as_slice(),
        _ => std::slice::from_ref(normalizer),
    };
    steps.iter().find(|step| step["type"] == "Precompiled" && step.get("precompiled_charsmap").is_some())
}

/// Reads merges.txt: one pair per line, after a line with the version.
fn merges_of(path: &Path) -> Result<Merges> {
    let text = String::from_utf8(read(path)?).map_err(|e| fault(path, format!("is not text: {e}")))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with("#version"));
    let merge = |(i, line)| pair(line).ok_or_else(|| fault(path, format!("line {} is not a pair of pieces", i + 1)));
    lines.map(merge).collect()
}

fn pair(line: &str) -> Option<(String, String)> {
    let (left, right) = line.split_once(' ')?;
    (!right.contains(' ')).then(|| (left.to_owned(), right.to_owned()))
}
