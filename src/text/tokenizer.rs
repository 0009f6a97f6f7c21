//! Token ids identical to those of the reference tokenizer.

mod bare;
mod choice;
mod classes;
mod cuts;
mod decoding;
mod encodings;
mod files;
mod frames;
mod load;
mod pairs;
mod parts;
mod pieces;
mod sentence_pieces;
mod sentences;
mod settings;
mod side;
mod special;
mod surroundings;
#[cfg(test)]
mod tests;
mod vocabulary;
mod words;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rayon::prelude::*;
use serde_json::{Map, Value};
pub use tokenizers::Encoding;
use tokenizers::PostProcessor;

use crate::error::brief;
use crate::exit::Request;
use crate::process::threads;
use crate::{Error, Result};
pub use choice::{OwnTokenizer, OwnTokenizers};
use cuts::Cuts;
pub use decoding::Described;
pub use encodings::{Encodings, Given, Padding, Sequence, Shortened, Truncation, Wanted};
use load::Loaded;
pub use pieces::{Pieces, pieces};
pub use side::Side;
use surroundings::{Surroundings, post_process};
pub(crate) use words::Library;

/// A text's tokens, special tokens included, truncated to the limit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tokens {
    /// Ids in the vocabulary.
    pub ids: Vec<u32>,
    /// Segment of each token: from the tokenizer's template if the model takes segments, else 0.
    pub type_ids: Vec<u32>,
    /// How many of the last ones are not the text's: they were put there to expand a query.
    pub expansion: usize,
}

impl Tokens {
    /// The tokens of a text, by their ids and segments.
    pub fn new(ids: Vec<u32>, type_ids: Vec<u32>) -> Self {
        Tokens { ids, type_ids, expansion: 0 }
    }
}

/// The tokenizer of a model's folder; truncation and padding set in tokenizer.json are overridden.
pub struct Tokenizer {
    loaded: Loaded,
    /// Number of tokens that the template adds around a text.
    added: usize,
    /// Those tokens, if they are the same around every text.
    surroundings: Option<Surroundings>,
    /// Positions at which a text may be cut without changing the tokens before the cut.
    cuts: Cuts,
    /// Whether long texts lose their starts.
    keeps_ends: AtomicBool,
    /// A token that is left out of every text.
    left_out: Option<u32>,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of `folder`, or the vocabulary files if there is none. `lower_case` adds a lower-casing
    /// step before the tokenizer's own normalisation; `of_model` are the classes of the architectures.
    ///
    /// # Errors
    /// `ModelFormat` when the files are missing or cannot be read.
    pub fn load(folder: &Path, lower_case: bool, of_model: OwnTokenizers) -> Result<Self> {
        Tokenizer::with_arguments(folder, lower_case, &Map::new(), of_model)
    }

    /// As [`Tokenizer::load`], with arguments that replace values of tokenizer_config.json.
    ///
    /// # Errors
    /// As [`Tokenizer::load`].
    pub fn with_arguments(
        folder: &Path,
        lower_case: bool,
        arguments: &Map<String, Value>,
        of_model: OwnTokenizers,
    ) -> Result<Self> {
        Tokenizer::of(load::folder(folder, lower_case, arguments, of_model)?)
    }

    /// Reads `tokenizer.json` of `folder`, without special tokens around a text; returns its own limit of tokens, too.
    ///
    /// # Errors
    /// As [`Tokenizer::load`].
    pub fn plain(folder: &Path) -> Result<(Self, Option<usize>)> {
        let (loaded, limit) = load::plain(folder)?;
        Ok((Tokenizer::of(loaded)?, limit))
    }

    fn of(loaded: Loaded) -> Result<Self> {
        let inner = &loaded.tokenizer;
        let tokenizer = Tokenizer {
            surroundings: guarded(|| Surroundings::of(inner)).unwrap_or(None),
            added: inner.get_post_processor().map_or(0, |template| template.added_tokens(false)),
            cuts: guarded(|| Ok(Cuts::of(inner))).unwrap_or(Cuts::Nowhere),
            keeps_ends: (loaded.truncation_side == Side::Left).into(),
            left_out: None,
            loaded,
        };
        // A template that refers to missing tokens fails on the first text.
        let unusable =
            |e: tokenizers::Error| files::fault(&tokenizer.loaded.path, format!("cannot be used: {}", brief(e)));
        guarded(|| tokenizer.encode_one("", 0, Side::Right)).map_err(unusable)?;
        Ok(tokenizer)
    }

    /// Tokens of each text, in parallel on the current rayon pool, truncated to `most` tokens (special tokens kept).
    ///
    /// # Errors
    /// `InvalidArgument` when the tokenizer rejects a text, or `most` is less than the number of special tokens.
    pub fn encode(&self, texts: &[String], most: usize) -> Result<Vec<Tokens>> {
        let (room, side) = (room(most, self.added, "text")?, self.truncation_side());
        each(texts, "text", |text| self.encode_one(text, room, side))
    }

    /// Tokens of one text, at most `room` not counting special tokens.
    fn encode_one(&self, text: &str, room: usize, side: Side) -> tokenizers::Result<Tokens> {
        let ids = self.cut_ids(text, room, side)?;
        Ok(self.segmented(match &self.surroundings {
            Some(surroundings) => surroundings.around(&ids),
            None => post_process(&self.loaded.tokenizer, &ids, None)?,
        }))
    }

    /// Tokens with segments as the model takes them.
    fn segmented(&self, mut tokens: Tokens) -> Tokens {
        if !self.loaded.gives_segments {
            tokens.type_ids.fill(0);
        }
        tokens
    }

    /// Ids without special tokens, at most `room`.
    fn cut_ids(&self, text: &str, room: usize, side: Side) -> tokenizers::Result<Vec<u32>> {
        let mut ids = self.plain_ids(text, room, side)?;
        side.cut(&mut ids, room);
        ids.retain(|id| self.left_out != Some(*id));
        Ok(ids)
    }

    /// Ids without special tokens: all, or of a text to be cut at its end at least the first `room`.
    ///
    /// Only the start of a long text is tokenized where the tokenizer allows it: with a limit of 256 tokens, a book
    /// costs no more than a page.
    fn plain_ids(&self, text: &str, room: usize, side: Side) -> tokenizers::Result<Vec<u32>> {
        // English has 4 to 5 bytes per token, and few texts have over 8; those are retried with more bytes.
        let mut bytes = room.saturating_mul(8).max(1024);
        while side == Side::Right && bytes < text.len() {
            // A space is one byte and never part of another character, so the cut is between characters.
            let Some(space) = self.cuts.first(text, bytes) else { break };
            let start = self.loaded.tokenizer.encode_fast(&text[..space], false)?;
            if start.len() >= room {
                return Ok(start.get_ids().to_vec());
            }
            bytes = bytes.saturating_mul(8);
        }
        Ok(self.loaded.tokenizer.encode_fast(text, false)?.get_ids().to_vec())
    }

    /// The number of leading tokens of `prompt + text` that belong to the prompt when texts are truncated to `most`:
    /// the prompt's own tokens with special tokens, less the trailing one.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn prompt_length(&self, prompt: &str, most: usize) -> Result<usize> {
        if prompt.is_empty() {
            return Ok(0);
        }
        let tokens = self.encode(&[prompt.to_owned()], most)?;
        let ids = tokens.first().map_or(&[][..], |tokens| &tokens.ids);
        let trailing = ids.last().is_some_and(|id| self.loaded.special.contains(id));
        Ok(ids.len() - usize::from(trailing))
    }

    /// The token with an id; `None` for an id that no token has.
    pub fn token(&self, id: u32) -> Option<String> {
        self.loaded.tokenizer.id_to_token(id)
    }

    /// What a program needs that has the tokenizers library: its file with all that the model's class changes, and, for single
    /// texts, `before`, `own` and `after` (ids and segments of what surrounds the text, the segment of its own tokens) and the
    /// `side` at which long ones are cut.
    ///
    /// # Errors
    /// `Unsupported` where the template treats texts differently; `OutOfMemory` for ids that are far apart.
    pub fn exported(&self) -> Result<(String, Value)> {
        let Some(Surroundings { before, own, after }) = &self.surroundings else {
            return Err(Error::unsupported("the tokenizer", "its template treats texts differently by their tokens"));
        };
        let segment = |segment: u32| if self.loaded.gives_segments { segment } else { 0 };
        let around = |tokens: &Tokens| {
            let segments: Vec<u32> = tokens.type_ids.iter().map(|id| segment(*id)).collect();
            serde_json::json!({"ids": tokens.ids, "segments": segments})
        };
        let file = self.file()?;
        let side = self.truncation_side().name();
        let texts =
            serde_json::json!({"before": around(before), "own": segment(*own), "after": around(after), "side": side});
        Ok((file, texts))
    }

    /// Id of the padding token, if the tokenizer has one.
    pub fn pad_id(&self) -> Option<u32> {
        self.loaded.pad_id
    }

    /// The end at which a long text is truncated.
    pub fn truncation_side(&self) -> Side {
        Side::of(self.keeps_ends.load(Relaxed))
    }

    /// Changes that end, for calls that begin later.
    pub fn set_truncation_side(&self, side: Side) {
        self.keeps_ends.store(side == Side::Left, Relaxed);
    }

    /// The side of padding.
    pub fn padding_side(&self) -> Side {
        self.loaded.padding_side
    }

    /// Whether the tokenizer passes segments to the model; if not, all are 0.
    pub fn gives_segments(&self) -> bool {
        self.loaded.gives_segments
    }
}

/// The tokens that a limit leaves beside the special ones.
fn room(most: usize, added: usize, around: &str) -> Result<usize> {
    most.checked_sub(added).ok_or_else(|| {
        let problem =
            format!("max_seq_length is {most}, but the tokenizer puts {added} special tokens around each {around}");
        Error::InvalidArgument(problem)
    })
}

/// Tokenizes every item, in parallel on the current rayon pool; `kind` names one in messages.
fn each<T: Sync>(
    items: &[T],
    kind: &str,
    encode: impl Fn(&T) -> tokenizers::Result<Tokens> + Sync,
) -> Result<Vec<Tokens>> {
    in_parallel(items, |place, item| {
        let fault = |e| Error::InvalidArgument(format!("{kind} {place} cannot be tokenized: {}", brief(e)));
        guarded(|| encode(item)).map_err(fault)
    })
}

/// What `one` makes of every item and its place.
fn in_parallel<T: Sync, R: Send>(items: &[T], one: impl Fn(usize, &T) -> Result<R> + Sync) -> Result<Vec<R>> {
    match items {
        // A single text is not worth waking other threads.
        [item] => Ok(vec![one(0, item)?]),
        _ => threads::run(|| {
            let request = Request::current();
            let one = |(place, item)| if request.made() { Err(Error::Interrupted) } else { one(place, item) };
            items.par_iter().enumerate().map(one).collect()
        })?,
    }
}

/// Runs code of the tokenizers library, which panics on some inconsistent files.
fn guarded<T>(part: impl FnOnce() -> tokenizers::Result<T>) -> tokenizers::Result<T> {
    // No state of ours is left inconsistent: the closure's result is dropped with it.
    catch_unwind(AssertUnwindSafe(part)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!("the tokenizers library gave up: {message}").into())
    })
}
