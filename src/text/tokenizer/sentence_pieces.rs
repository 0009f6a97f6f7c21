//! SentencePiece's files: protocol buffers with pieces, how they were learned, and what normalises a text.
//!
//! Source: `sentencepiece_model.proto` of <https://github.com/google/sentencepiece>.

use std::collections::HashMap;
use std::path::Path;

use tokenizers::models::bpe::Merges;
use tokenizers::normalizers::precompiled::Precompiled;

use super::files::{fault, read};
use crate::Result;

/// The contents of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SentencePieces {
    pub pieces: Vec<Piece>,
    /// Whether they were learned as those of a Unigram model.
    pub unigram: bool,
    /// Whether the bytes of an unknown character are pieces.
    pub bytes: bool,
    /// Ids of the unknown piece and of those at the start and at the end of a text, none if negative, and their names.
    pub named: [(i32, String); 3],
    /// The map of characters, in its own format; may be empty.
    map: Vec<u8>,
    /// Whether a space is put before a text.
    pub prefixed: bool,
    /// Whether spaces at the ends of a text are removed, and runs of them are one.
    pub squeezed: bool,
    /// Whether `▁` takes the place of a space.
    pub escaped: bool,
}

/// A piece; its index is its id.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece {
    pub text: String,
    pub score: f32,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Normal,
    /// A special token.
    Control,
    /// A token that is never divided.
    Whole,
    /// Unknown, unused, or a byte.
    Other,
}

impl SentencePieces {
    /// # Errors
    /// `ModelFormat` for a file that is not one of SentencePiece's, or has no pieces.
    pub fn read(path: &Path) -> Result<Self> {
        SentencePieces::of(&read(path)?)
            .map_err(|problem| fault(path, format!("is not a SentencePiece model: {problem}")))
    }

    pub fn of(bytes: &[u8]) -> Result<Self, String> {
        let named = [(0, "<unk>"), (1, "<s>"), (2, "</s>")].map(|(id, name)| (id, name.to_owned()));
        let mut read = SentencePieces {
            pieces: Vec::new(),
            unigram: true,
            bytes: false,
            named,
            map: Vec::new(),
            prefixed: true,
            squeezed: true,
            escaped: true,
        };
        each(bytes, |number, value| {
            match number {
                1 => read.pieces.push(piece(value.part()?)?),
                2 => each(value.part()?, |number, value| read.learned(number, value))?,
                3 => each(value.part()?, |number, value| read.normalised(number, value))?,
                _ => {}
            }
            Ok(())
        })?;
        if read.pieces.is_empty() { Err("it has no pieces".into()) } else { Ok(read) }
    }

    /// A field of the settings with which the pieces were learned.
    fn learned(&mut self, number: u64, value: Value) -> Result<(), String> {
        match number {
            3 => self.unigram = value.number()? == 1,
            35 => self.bytes = value.flag()?,
            40..=42 => self.named[number as usize - 40].0 = value.number()? as i32,
            45..=47 => self.named[number as usize - 45].1 = value.text()?,
            _ => {}
        }
        Ok(())
    }

    /// A field of the settings of normalisation.
    fn normalised(&mut self, number: u64, value: Value) -> Result<(), String> {
        match number {
            2 => self.map = value.part()?.to_owned(),
            3 => self.prefixed = value.flag()?,
            4 => self.squeezed = value.flag()?,
            5 => self.escaped = value.flag()?,
            _ => {}
        }
        Ok(())
    }

    /// The map of characters, if there is one.
    pub fn characters(&self) -> Result<Option<Precompiled>, String> {
        let map = (!self.map.is_empty()).then(|| Precompiled::from(&self.map));
        map.transpose().map_err(|e| format!("its map of characters cannot be used: {e}"))
    }

    pub fn scored(&self) -> Vec<(String, f64)> {
        self.pieces.iter().map(|piece| (piece.text.clone(), f64::from(piece.score))).collect()
    }

    /// The id of each piece; the last of equal ones.
    pub fn numbered(&self) -> HashMap<String, u32> {
        (0..).zip(&self.pieces).map(|(id, piece)| (piece.text.clone(), id)).collect()
    }
}

/// The merges that BPE needs for each piece: all its divisions into two pieces, in the order of the ids.
pub(super) fn merges(pieces: &HashMap<String, u32>) -> Merges {
    let mut ordered: Vec<_> = pieces.iter().collect();
    ordered.sort_unstable_by_key(|(_, id)| **id);
    let known = |part: &str| pieces.contains_key(part);
    ordered.into_iter().flat_map(|(piece, _)| divisions(piece)).filter(|(a, b)| known(a) && known(b)).collect()
}

/// The divisions of a text into two parts.
pub(super) fn divisions(text: &str) -> impl Iterator<Item = (String, String)> {
    text.char_indices().skip(1).map(|(place, _)| (text[..place].to_owned(), text[place..].to_owned()))
}

fn piece(part: &[u8]) -> Result<Piece, String> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: Kind::Normal };
    each(part, |number, value| {
        match number {
            1 => piece.text = value.text()?,
            2 => piece.score = value.float()?,
            3 => {
                piece.kind = match value.number()? {
                    1 => Kind::Normal,
                    3 => Kind::Control,
                    4 => Kind::Whole,
                    _ => Kind::Other,
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(piece)
}

/// A value of a message.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Four([u8; 4]),
    Eight,
    Part(&'a [u8]),
}

impl<'a> Value<'a> {
    fn number(self) -> Result<u64, String> {
        if let Value::Number(number) = self { Ok(number) } else { Err(self.other("a number")) }
    }

    fn flag(self) -> Result<bool, String> {
        Ok(self.number()? != 0)
    }

    fn float(self) -> Result<f32, String> {
        if let Value::Four(bytes) = self { Ok(f32::from_le_bytes(bytes)) } else { Err(self.other("a float32")) }
    }

    fn part(self) -> Result<&'a [u8], String> {
        if let Value::Part(part) = self { Ok(part) } else { Err(self.other("text or a message")) }
    }

    fn text(self) -> Result<String, String> {
        String::from_utf8(self.part()?.to_owned()).map_err(|_| "a text is not UTF-8".into())
    }

    fn other(self, wanted: &str) -> String {
        let found = match self {
            Value::Number(_) => "a number",
            Value::Four(_) => "4 bytes",
            Value::Eight => "8 bytes",
            Value::Part(_) => "text or a message",
        };
        format!("a field holds {found} where {wanted} belongs")
    }
}

/// Gives each field of a message, its number and its value.
fn each<'a>(mut rest: &'a [u8], mut give: impl FnMut(u64, Value<'a>) -> Result<(), String>) -> Result<(), String> {
    while !rest.is_empty() {
        let key = number(&mut rest)?;
        let value = match key & 7 {
            0 => Value::Number(number(&mut rest)?),
            1 => taken(&mut rest, 8).map(|_| Value::Eight)?,
            2 => {
                let length = usize::try_from(number(&mut rest)?).map_err(|_| "a length is out of range")?;
                Value::Part(taken(&mut rest, length)?)
            }
            5 => {
                let bytes = taken(&mut rest, 4)?;
                Value::Four([bytes[0], bytes[1], bytes[2], bytes[3]])
            }
            kind => return Err(format!("a field has the unknown kind {kind}")),
        };
        match key >> 3 {
            0 => return Err("a field has the number 0".into()),
            place => give(place, value)?,
        }
    }
    Ok(())
}

/// The first `length` bytes, which are removed.
fn taken<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (first, after) = rest.split_at_checked(length).ok_or("it ends inside a field")?;
    *rest = after;
    Ok(first)
}

/// A number of up to 64 bits in bytes of 7, the lowest first.
fn number(rest: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0;
    for place in 0..10 {
        let byte = taken(rest, 1)?[0];
        number |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err("a number has more than 64 bits".into())
}
