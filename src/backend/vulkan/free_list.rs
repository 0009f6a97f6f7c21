//! Free list of array memory, for later results of the same size.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::raw::{Buffer, Slice};

/// Arrays of at least this size are dedicated allocations, which cost milliseconds in the driver: when they are dropped,
/// they are retained for the next result of their size.
const LARGE_ARRAY: u64 = 64 << 20;
/// So are intermediate results of this size: a run of the same plan, as in training, needs as many again, and the blocks
/// that hold smaller ones cost from a quarter of a millisecond each.
const LARGE_BETWEEN: u64 = 1 << 20;

/// What a buffer held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// An array that was dropped.
    Array,
    /// An intermediate result of a plan.
    Between,
}

/// Buffers that will not be read again, by size, and whether they are retained while no commands use them. The least
/// recently used is reused first, as it is the least likely to cause a hazard.
#[derive(Default)]
pub(super) struct FreeList {
    buffers: HashMap<u64, VecDeque<(Arc<Buffer>, bool)>>,
    bytes: u64,
}

impl FreeList {
    /// Retains a buffer if commands still use it, or if its memory is slow to allocate and at most `most` bytes are
    /// retained.
    pub(super) fn keep(&mut self, buffer: Arc<Buffer>, held: Held, most: u64) {
        let bytes = buffer.bytes;
        let least = if held == Held::Array { LARGE_ARRAY } else { LARGE_BETWEEN };
        let stays = bytes >= least && self.bytes + bytes <= most;
        if stays || Arc::strong_count(&buffer) > 1 {
            self.bytes += bytes;
            self.buffers.entry(bytes).or_default().push_back((buffer, stays));
        }
    }

    /// Takes a buffer of that size.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Arc<Buffer>> {
        let (buffer, _) = self.buffers.get_mut(&bytes)?.pop_front()?;
        self.bytes -= bytes;
        Some(buffer)
    }

    /// Takes exactly the buffers of these slices, or none if one of them is not free.
    pub(super) fn take_these<'a>(&mut self, slices: impl Iterator<Item = &'a Slice> + Clone) -> bool {
        let place = |list: &Self, buffer: &Arc<Buffer>| {
            list.buffers.get(&buffer.bytes)?.iter().position(|(free, _)| Arc::ptr_eq(free, buffer))
        };
        if !slices.clone().all(|slice| place(self, &slice.buffer).is_some()) {
            return false;
        }
        for Slice { buffer, .. } in slices {
            if let Some(place) = place(self, buffer) {
                self.buffers.entry(buffer.bytes).or_default().remove(place);
                self.bytes -= buffer.bytes;
            }
        }
        true
    }

    /// Frees the buffers of completed commands.
    pub(super) fn free_unused(&mut self) {
        self.buffers.retain(|_, buffers| {
            buffers.retain(|(buffer, stays)| *stays || Arc::strong_count(buffer) > 1);
            !buffers.is_empty()
        });
        self.bytes = self.buffers.iter().map(|(bytes, buffers)| bytes * buffers.len() as u64).sum();
    }

    /// Frees everything.
    pub(super) fn clear(&mut self) {
        *self = FreeList::default();
    }
}
