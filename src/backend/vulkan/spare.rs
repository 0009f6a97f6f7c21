//! Memory of arrays that are gone, for the next results of their size.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::raw::Buffer;

/// Buffers from this size on are allocations of their own, which take the driver milliseconds: they are kept for the next
/// result of their size.
const LARGE: u64 = 64 << 20;

/// Buffers that nobody will read any more, by size; the longest unused goes first, for it is the likeliest to be free of
/// hazards.
#[derive(Default)]
pub(super) struct Spare {
    buffers: HashMap<u64, VecDeque<Arc<Buffer>>>,
    bytes: u64,
}

impl Spare {
    /// Keeps a buffer if commands still use it, or if its memory is slow to get and there are at most `most` bytes.
    pub(super) fn keep(&mut self, buffer: Arc<Buffer>, most: u64) {
        let bytes = buffer.bytes;
        if Arc::strong_count(&buffer) > 1 || (bytes >= LARGE && self.bytes + bytes <= most) {
            self.bytes += bytes;
            self.buffers.entry(bytes).or_default().push_back(buffer);
        }
    }

    /// A buffer of that size.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Arc<Buffer>> {
        let buffer = self.buffers.get_mut(&bytes)?.pop_front()?;
        self.bytes -= bytes;
        Some(buffer)
    }

    /// Frees what was kept for commands that are done.
    pub(super) fn free_unused(&mut self) {
        self.buffers.retain(|bytes, buffers| {
            buffers.retain(|buffer| *bytes >= LARGE || Arc::strong_count(buffer) > 1);
            !buffers.is_empty()
        });
        self.bytes = self.buffers.iter().map(|(bytes, buffers)| bytes * buffers.len() as u64).sum();
    }

    /// Frees everything.
    pub(super) fn clear(&mut self) {
        *self = Spare::default();
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }
}
