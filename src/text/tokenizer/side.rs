//! The ends of a text.

use serde::Deserialize;
use tokenizers::{PaddingDirection, TruncationDirection};

/// An end of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Side {
    /// Its start.
    Left,
    /// Its end.
    #[default]
    Right,
}

impl Side {
    /// `left` or `right`.
    pub fn name(self) -> &'static str {
        self.choose(["left", "right"])
    }

    fn choose<T>(self, [left, right]: [T; 2]) -> T {
        match self {
            Side::Left => left,
            Side::Right => right,
        }
    }

    pub(super) fn truncation(self) -> TruncationDirection {
        self.choose([TruncationDirection::Left, TruncationDirection::Right])
    }

    pub(super) fn padding(self) -> PaddingDirection {
        self.choose([PaddingDirection::Left, PaddingDirection::Right])
    }

    /// The left side if `left`.
    pub(super) fn of(left: bool) -> Self {
        if left { Side::Left } else { Side::Right }
    }

    /// Removes tokens at this end until at most `room` are left.
    pub(super) fn cut(self, ids: &mut Vec<u32>, room: usize) {
        match self {
            Side::Right => ids.truncate(room),
            Side::Left => drop(ids.drain(..ids.len().saturating_sub(room))),
        }
    }
}
