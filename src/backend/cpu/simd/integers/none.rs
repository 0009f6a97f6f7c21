//! Processors without byte products that are used here.

use super::{ByteRows, Panels};

/// There is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteUnit {}

impl ByteUnit {
    /// None.
    pub fn all() -> Vec<ByteUnit> {
        Vec::new()
    }

    /// Lines of a panel of so many terms.
    pub fn lines(self, _depth: usize) -> usize {
        match self {}
    }

    pub(super) fn multiply(self, _: &ByteRows<'_>, _: &Panels<'_>, _: impl FnMut(usize, usize, &[i32])) {
        match self {}
    }
}
