//! Consecutive texts of a batch, for backends that run a batch in parts.

use std::borrow::Cow;
use std::ops::Range;

use bytemuck::Pod;

use crate::ops::{Counts, Dim};

/// Some texts of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its rows of values counted in tokens.
    pub tokens: Range<usize>,
    /// Its rows of values counted in texts.
    pub texts: Range<usize>,
}

impl Chunk {
    /// Its sizes in a batch of `counts`.
    pub fn counts(&self, counts: Counts) -> Counts {
        Counts { others: counts.others, ..Counts::new(self.tokens.len(), self.texts.len()) }
    }

    /// Its rows of a value counted in `dim`; `None` for values that every chunk reads whole.
    pub fn rows(&self, dim: Dim) -> Option<Range<usize>> {
        match dim {
            Dim::Tokens => Some(self.tokens.clone()),
            Dim::Texts => Some(self.texts.clone()),
            Dim::Boundaries => Some(self.texts.start..self.texts.end + 1),
            Dim::Fixed(_) | Dim::Length | Dim::Counted(_) | Dim::LengthOf(_) => None,
        }
    }
}

/// The elements in place if the bytes are aligned, or a copy.
pub fn aligned<T: Pod>(bytes: &[u8]) -> Cow<'_, [T]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(elements) => Cow::Borrowed(elements),
        Err(_) => Cow::Owned(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()),
    }
}
