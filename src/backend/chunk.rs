//! Consecutive texts of a batch, for backends that run a batch in parts.

use std::borrow::Cow;
use std::ops::Range;

use bytemuck::Pod;

use crate::graph::Value;
use crate::ops::{Counts, Dim};

/// Adjacent texts of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The texts.
    pub texts: Range<usize>,
    /// Their rows of each sequence, by what counts these.
    pub rows: Vec<(Dim, Range<usize>)>,
}

impl Chunk {
    /// Its sizes in a batch of `counts`.
    pub fn counts(&self, mut counts: Counts) -> Counts {
        counts.texts = self.texts.len();
        self.rows.iter().for_each(|(dim, rows)| counts.set(*dim, rows.len()));
        counts
    }

    /// Its rows of a value counted in `dim`; `None` for values that every chunk reads whole.
    pub fn rows(&self, dim: Dim) -> Option<Range<usize>> {
        match dim {
            Dim::Texts => Some(self.texts.clone()),
            Dim::Boundaries => Some(self.texts.start..self.texts.end + 1),
            _ => self.rows.iter().find(|(own, _)| *own == dim).map(|(_, rows)| rows.clone()),
        }
    }

    /// Its tokens.
    pub fn tokens(&self) -> Range<usize> {
        self.rows(Dim::Tokens).unwrap_or_default()
    }

    /// The bytes of its rows of an input.
    pub fn bytes<'a>(&self, value: &Value, bytes: &'a [u8]) -> &'a [u8] {
        let first = |row: usize| value.dtype.bytes(row * value.shape.row_elements());
        self.rows(value.shape.rows()).map_or(bytes, |rows| &bytes[first(rows.start)..first(rows.end)])
    }
}

/// Boundaries of texts, as words, counted from the first.
pub fn from_first<T: Pod>(bytes: &[u8]) -> Cow<'_, [T]> {
    let mut words = aligned::<T>(bytes);
    let first = bytemuck::cast_slice::<T, u32>(&words).first().copied().unwrap_or(0);
    if first != 0 {
        bytemuck::cast_slice_mut::<T, u32>(words.to_mut()).iter_mut().for_each(|offset| *offset -= first);
    }
    words
}

/// The elements in place if the bytes are aligned, or a copy.
pub fn aligned<T: Pod>(bytes: &[u8]) -> Cow<'_, [T]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(elements) => Cow::Borrowed(elements),
        Err(_) => Cow::Owned(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()),
    }
}
