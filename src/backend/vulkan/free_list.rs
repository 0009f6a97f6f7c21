//! Free list of array memory, for later results of the same size.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::raw::Buffer;

/// Buffers of at least this size are retained for the next result of their size: the memory that holds them, 64 MiB or
/// more at once, takes a driver from a quarter of a millisecond to several, and a step of training needs as much anew.
const LARGE: u64 = 1 << 20;

/// Buffers that will not be read again, by size. The least recently used is reused first, as it is the least likely to
/// cause a hazard.
#[derive(Default)]
pub(super) struct FreeList {
    buffers: HashMap<u64, VecDeque<Arc<Buffer>>>,
    bytes: u64,
}

impl FreeList {
    /// Retains a buffer if commands still use it, or if its memory is slow to allocate and at most `most` bytes are
    /// retained.
    pub(super) fn keep(&mut self, buffer: Arc<Buffer>, most: u64) {
        let bytes = buffer.bytes;
        if Arc::strong_count(&buffer) > 1 || (bytes >= LARGE && self.bytes + bytes <= most) {
            self.bytes += bytes;
            self.buffers.entry(bytes).or_default().push_back(buffer);
        }
    }

    /// Takes a buffer of that size.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Arc<Buffer>> {
        let buffer = self.buffers.get_mut(&bytes)?.pop_front()?;
        self.bytes -= bytes;
        Some(buffer)
    }

    /// Frees the buffers of completed commands.
    pub(super) fn free_unused(&mut self) {
        self.buffers.retain(|bytes, buffers| {
            buffers.retain(|buffer| *bytes >= LARGE || Arc::strong_count(buffer) > 1);
            !buffers.is_empty()
        });
        self.bytes = self.buffers.iter().map(|(bytes, buffers)| bytes * buffers.len() as u64).sum();
    }

    /// Frees everything.
    pub(super) fn clear(&mut self) {
        *self = FreeList::default();
    }

    /// Whether the list is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }
}
