//! Processors without word products that are used here.

use super::{Pair, Parts, WordLine, WordSums};

/// There is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordUnit {}

impl WordUnit {
    /// None.
    pub fn try_new() -> Option<WordUnit> {
        None
    }

    pub(super) fn add<const R: usize>(
        self,
        _: &[[&[Pair]; 3]; R],
        _: (&[WordLine], &[WordLine]),
        _: &[WordLine],
        _: &mut Parts,
    ) {
        match self {}
    }

    pub(super) fn join<const R: usize>(self, parts: &mut Parts, sums: &mut WordSums) {
        super::join::<R>(parts, sums);
    }
}
