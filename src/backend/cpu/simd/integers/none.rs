//! Processors without byte products that are used here.

use super::digits::{DigitRows, DigitSums};
use super::{ByteRows, Line, Panels};

/// There is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ByteUnit {}

impl ByteUnit {
    /// None.
    pub fn all() -> Vec<ByteUnit> {
        Vec::new()
    }

    /// Whether it has more than ten times the throughput of the vector unit in float64.
    pub fn has_tiles(self) -> bool {
        match self {}
    }

    /// Lines of a panel of so many terms.
    pub fn lines(self, _depth: usize) -> usize {
        match self {}
    }

    pub(super) fn multiply_digits(self, _: &DigitRows<'_>, _: &[Line], _: impl FnMut(usize, usize, &DigitSums)) {
        match self {}
    }

    pub(super) fn multiply(self, _: &ByteRows<'_>, _: &Panels<'_>, _: impl FnMut(usize, usize, &[i32])) {
        match self {}
    }
}
