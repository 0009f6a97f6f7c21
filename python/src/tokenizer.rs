//! `grilly._core.Tokenizer`, a loaded model's tokenizer, and `grilly._core.Encodings`, its results.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::embed::EmbeddingModel;
use crate::error::PyResult;
use crate::lock;
use crate::text::{self, List, Name};
use grilly::Error;
use grilly::error::named;
use grilly::text::tokenizer as core;
use grilly::text::tokenizer::{Padding, Sequence, Shortened, Side, Truncation, Wanted};

/// The tokenizer of a model, of the first of several routes.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct Tokenizer {
    pub model: Py<EmbeddingModel>,
}

/// Special tokens by role, those without one, names of the model's inputs; whether decoded texts are cleaned up by default
/// and at all, and whether special tokens inside a text are split.
type Described = (Vec<(String, String)>, Vec<String>, Vec<String>, bool, bool, bool);
/// Maximum tokens, tokens in common with the part before, and what is shortened.
type Limit = (usize, usize, Name);
/// Tokens of each text or None for those of the longest, the number of which that is a multiple, side, token and id.
type Filled = (Option<usize>, Option<usize>, Name, String, u32);

fn side(name: &str) -> grilly::Result<Side> {
    named("the side", name, [("left", Side::Left), ("right", Side::Right)])
}

/// Texts, or lists of words.
fn sequences(given: List<'_, '_>, words: bool) -> grilly::Result<Vec<Sequence>> {
    if !words {
        return Ok(text::strings(given, "texts")?.into_iter().map(Sequence::Text).collect());
    }
    let read = |(place, item): (usize, Bound<'_, PyAny>)| {
        let name = format!("texts[{place}]");
        let list = item.cast::<PyList>();
        let list = list.map_err(|_| Error::InvalidType(format!("{name} is not a list of words")))?;
        text::strings(list, &name).map(Sequence::Words)
    };
    given.iter().enumerate().map(read).collect()
}

impl Tokenizer {
    /// Runs short work on the tokenizer without the interpreter's lock.
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&core::Tokenizer) -> T + Send) -> PyResult<T> {
        let model = self.model.get().0.get()?;
        Ok(lock::briefly_without(py, || work(model.first().tokenizer())))
    }
}

#[pymethods]
impl Tokenizer {
    /// Encodings of texts, or of pairs with the texts at the same places of `seconds`; of lists of words with `words`.
    #[pyo3(signature = (
        firsts, seconds, words=false, bare=false, splits_special=None, limit=None, filled=None, overflow=false,
    ))]
    #[allow(clippy::too_many_arguments)]
    fn encodings(
        &self,
        py: Python<'_>,
        firsts: List<'_, '_>,
        seconds: Option<List<'_, '_>>,
        words: bool,
        bare: bool,
        splits_special: Option<bool>,
        limit: Option<Limit>,
        filled: Option<Filled>,
        overflow: bool,
    ) -> PyResult<Encodings> {
        let model = self.model.get().0.get()?;
        let truncation = limit.map(|(most, stride, shortened)| {
            let shortened = match shortened.0.as_str() {
                "only_first" => Shortened::First,
                "only_second" => Shortened::Second,
                _ => Shortened::Longest,
            };
            Truncation { most, stride, shortened }
        });
        let padding = match filled {
            Some((length, multiple, name, token, id)) => {
                Some(Padding { length, multiple, side: side(&name.0)?, token: (token, id) })
            }
            None => None,
        };
        let wanted = Wanted { bare, splits_special, truncation, padding, overflow };
        let firsts = sequences(firsts, words)?;
        let given: Vec<core::Given> = match seconds {
            None => firsts.into_iter().map(|first| (first, None)).collect(),
            Some(seconds) => firsts.into_iter().zip(sequences(seconds, words)?.into_iter().map(Some)).collect(),
        };
        let found = lock::without(py, || model.encodings(&given, &wanted))?;
        Ok(Encodings(found))
    }

    /// The text of each row of ids; ids that no token has are left out.
    fn decode(&self, py: Python<'_>, rows: Vec<Vec<u32>>, skip_special: bool) -> PyResult<Vec<String>> {
        let work = |tokenizer: &core::Tokenizer| rows.iter().map(|ids| tokenizer.decode(ids, skip_special)).collect();
        Ok(self.with::<grilly::Result<_>>(py, work)??)
    }

    /// The text of tokens.
    fn joined(&self, py: Python<'_>, tokens: List<'_, '_>) -> PyResult<String> {
        let tokens = text::strings(tokens, "tokens")?;
        Ok(self.with(py, |tokenizer| tokenizer.joined(tokens))??)
    }

    /// The id of each token; None for one that is unknown.
    fn ids_of(&self, py: Python<'_>, tokens: List<'_, '_>) -> PyResult<Vec<Option<u32>>> {
        let tokens = text::strings(tokens, "tokens")?;
        self.with(py, |tokenizer| tokens.iter().map(|token| tokenizer.id(token)).collect())
    }

    /// Every token with its id, added ones included.
    fn vocabulary(&self, py: Python<'_>) -> PyResult<HashMap<String, u32>> {
        self.with(py, |tokenizer| tokenizer.vocabulary().collect())
    }

    /// Tokens that were added to the model's pieces, by id.
    fn added(&self, py: Python<'_>) -> PyResult<Vec<(u32, String)>> {
        self.with(py, core::Tokenizer::added_tokens)
    }

    /// The number of tokens, with or without added ones.
    fn size(&self, py: Python<'_>, added: bool) -> PyResult<usize> {
        self.with(py, |tokenizer| tokenizer.size(added))
    }

    /// The number of special tokens around a text, or those of a pair.
    fn around(&self, py: Python<'_>, pair: bool) -> PyResult<usize> {
        self.with(py, |tokenizer| tokenizer.around(pair))
    }

    /// What the files say beside the ids.
    fn described(&self, py: Python<'_>) -> PyResult<Described> {
        self.with(py, |tokenizer| {
            let found = tokenizer.described().clone();
            let (cleans_up, can_clean_up) = (found.cleans_up, found.can_clean_up);
            (found.roles, found.extra, found.inputs, cleans_up, can_clean_up, found.splits_special)
        })
    }

    /// The contents of tokenizer.json with all that the model's class changes.
    fn file(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.with(py, core::Tokenizer::file)??)
    }

    /// Whether padding before a text would change its positions in the reference.
    #[getter]
    fn counts_positions(&self) -> PyResult<bool> {
        Ok(self.model.get().0.get()?.counts_positions())
    }

    /// The end at which long texts are truncated.
    #[getter]
    fn truncation_side(&self, py: Python<'_>) -> PyResult<&'static str> {
        self.with(py, |tokenizer| tokenizer.truncation_side().name())
    }

    /// Changes that end, of all routes.
    fn set_truncation_side(&self, py: Python<'_>, name: Name) -> PyResult<()> {
        let (model, side) = (self.model.get().0.get()?, side(&name.0)?);
        lock::briefly_without(py, || model.set_truncation_side(side));
        Ok(())
    }
}

/// Each text normalised, and the words that it is divided into, by the contents of a tokenizer.json.
#[pyfunction]
pub(crate) fn pieces(py: Python<'_>, file: Name, texts: List<'_, '_>) -> PyResult<Vec<core::Pieces>> {
    let texts = text::strings(texts, "vocabulary")?;
    lock::without(py, || core::pieces(&file.0, &texts))
}

/// Encoded texts, each followed by the parts that were cut off if they were asked for.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct Encodings(core::Encodings);

impl Encodings {
    fn columns<T>(&self, column: impl Fn(&core::Encoding) -> T) -> Vec<T> {
        self.0.rows.iter().map(column).collect()
    }

    fn row(&self, row: usize) -> grilly::Result<&core::Encoding> {
        let missing = || Error::IndexOutOfRange(format!("there is no row {row} of {}", self.0.rows.len()));
        self.0.rows.get(row).ok_or_else(missing)
    }
}

#[pymethods]
impl Encodings {
    fn __len__(&self) -> usize {
        self.0.rows.len()
    }

    fn ids(&self) -> Vec<Vec<u32>> {
        self.columns(|row| row.get_ids().to_vec())
    }

    fn segments(&self) -> Vec<Vec<u32>> {
        self.columns(|row| row.get_type_ids().to_vec())
    }

    /// 0 for padding, else 1.
    fn attended(&self) -> Vec<Vec<u32>> {
        self.columns(|row| row.get_attention_mask().to_vec())
    }

    /// 1 for tokens around the text and for padding, else 0.
    fn special(&self) -> Vec<Vec<u32>> {
        self.columns(|row| row.get_special_tokens_mask().to_vec())
    }

    /// The characters of each token, from and to.
    fn offsets(&self) -> Vec<Vec<(usize, usize)>> {
        self.columns(|row| row.get_offsets().to_vec())
    }

    /// The number of the text of each row.
    fn texts(&self) -> Vec<usize> {
        self.0.texts.clone()
    }

    fn tokens(&self, row: usize) -> PyResult<Vec<String>> {
        Ok(self.row(row)?.get_tokens().to_vec())
    }

    /// The number of the word of each token.
    fn words(&self, row: usize) -> PyResult<Vec<Option<u32>>> {
        Ok(self.row(row)?.get_word_ids().to_vec())
    }

    /// The number of the text of a pair that each token is of.
    fn sequences(&self, row: usize) -> PyResult<Vec<Option<usize>>> {
        Ok(self.row(row)?.get_sequence_ids())
    }

    /// The number of texts in each row, 1 or 2.
    fn count(&self) -> usize {
        self.0.rows.first().map_or(1, core::Encoding::n_sequences)
    }

    fn token_to_sequence(&self, row: usize, token: usize) -> PyResult<Option<usize>> {
        Ok(self.row(row)?.token_to_sequence(token))
    }

    fn token_to_word(&self, row: usize, token: usize) -> PyResult<Option<u32>> {
        Ok(self.row(row)?.token_to_word(token).map(|(_, word)| word))
    }

    fn token_to_chars(&self, row: usize, token: usize) -> PyResult<Option<(usize, usize)>> {
        Ok(self.row(row)?.token_to_chars(token).map(|(_, characters)| characters))
    }

    fn word_to_tokens(&self, row: usize, word: u32, sequence: usize) -> PyResult<Option<(usize, usize)>> {
        Ok(self.row(row)?.word_to_tokens(word, sequence))
    }

    fn word_to_chars(&self, row: usize, word: u32, sequence: usize) -> PyResult<Option<(usize, usize)>> {
        Ok(self.row(row)?.word_to_chars(word, sequence))
    }

    fn char_to_token(&self, row: usize, character: usize, sequence: usize) -> PyResult<Option<usize>> {
        Ok(self.row(row)?.char_to_token(character, sequence))
    }

    fn char_to_word(&self, row: usize, character: usize, sequence: usize) -> PyResult<Option<u32>> {
        Ok(self.row(row)?.char_to_word(character, sequence))
    }
}
