//! Processors without tile instructions that are used here.

use super::{Configured, Sums, TileUnit};

impl TileUnit {
    /// Always `None`: only x86-64 processors have tile registers, and only Linux is supported.
    pub fn try_new() -> Option<TileUnit> {
        None
    }

    pub(in crate::backend::cpu::simd) fn configure(self) -> Configured {
        unreachable!("no tile unit")
    }
}

impl Configured {
    pub(super) fn multiply(&self, _a: &[f32], _b: &[f32], _rows: usize, _next: &[f32], _sums: &mut Sums) {
        unreachable!("no tile unit")
    }
}
