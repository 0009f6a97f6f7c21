//! Memory that will not be read again, retained for later results, uploads and downloads: a driver takes up to milliseconds to
//! allocate.
//!
//! A loop whose sizes vary would find only buffers that are too small or too large. Where a free buffer has nearly the size that is
//! asked for, sizes vary: one with headroom takes its place, which from then on serves them all.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::budget::Retained;
use super::raw::{Buffer, Slice};

/// What was not needed for this long is freed.
const IDLE: Duration = Duration::from_secs(10);
/// A buffer of up to so many times the size serves.
const LARGER: u64 = 2;
/// Sizes with headroom are multiples of it.
const HEADROOM: u64 = 256;

/// Which buffers serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// Those of the very size: for plans, which ask for the same sizes again.
    Exact,
    /// Larger ones, too.
    Near,
}

/// Who writes to a buffer that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writer {
    /// Commands, which run after those that use the buffer now.
    Device,
    /// The host, at once.
    Host,
}

/// A buffer that is free, or will be for commands that come later.
struct Free {
    // Dropped before the buffer, whose bytes it counts.
    _retained: Retained,
    buffer: Arc<Buffer>,
    /// Bytes that were used of it.
    used: u64,
    /// What it may be taken for: commands that are kept use the buffers of their plan again.
    fit: Fit,
    since: Instant,
}

impl Free {
    /// Whether no commands use it.
    fn idle(&self) -> bool {
        Arc::strong_count(&self.buffer) == 1
    }
}

/// The free buffers of one size. The least recently used is taken first, as it is the least likely to cause a hazard.
#[derive(Default)]
struct Shelf {
    free: VecDeque<Free>,
    /// The fewest that were free at once since [`FreeList::free_unneeded`]: so many are not needed.
    spare: usize,
}

/// Buffers that will not be read again, by size.
pub(super) struct FreeList {
    shelves: BTreeMap<u64, Shelf>,
    bytes: u64,
    /// Most bytes that stay once no commands use them.
    most: u64,
    /// Most bytes of a buffer with headroom.
    largest: u64,
    /// When unneeded ones were freed last.
    looked: Instant,
}

impl FreeList {
    /// An empty list, in which at most `most` bytes stay, of a device with buffers of at most `largest` bytes.
    pub(super) fn new(most: u64, largest: u64) -> Self {
        let largest = largest.min(most) / HEADROOM * HEADROOM;
        FreeList { shelves: BTreeMap::new(), bytes: 0, most, largest, looked: Instant::now() }
    }

    /// Retains the buffer of a slice, all that was used of it. Those that no commands use make way for it.
    pub(super) fn keep(&mut self, Slice { buffer, bytes: used, .. }: Slice, fit: Fit) {
        self.bytes += buffer.bytes;
        let shelf = self.shelves.entry(buffer.bytes).or_default();
        let retained = Retained::new(buffer.reserved());
        shelf.free.push_back(Free { _retained: retained, buffer, used, fit, since: Instant::now() });
        self.shrink(self.most);
    }

    /// Takes a buffer of at least `bytes`, or says how many to allocate.
    pub(super) fn take(&mut self, bytes: u64, fit: Fit, writer: Writer) -> Result<Arc<Buffer>, u64> {
        let may = |free: &Free| writer == Writer::Device || free.idle();
        if let Some(at) = self.find(bytes..=bytes, |_, free| may(free)) {
            return self.remove(at).ok_or(bytes);
        }
        if fit == Fit::Exact {
            return Err(bytes);
        }
        let near = |free: &Free| free.fit == fit && may(free);
        let most = bytes.saturating_mul(LARGER);
        // One of which a part was used had headroom, or memory was short.
        if let Some(at) = self.find(bytes..=most, |size, free| near(free) && free.used < size) {
            return self.remove(at).ok_or(bytes);
        }
        let Some(at) = self.find(bytes / LARGER..=most, |_, free| near(free)) else {
            return Err(bytes);
        };
        self.remove(at);
        Err(with_headroom(at.0.max(bytes)).min(self.largest).max(bytes))
    }

    /// The size and the place of the first buffer of the least such size.
    fn find(&self, sizes: impl RangeBounds<u64>, so: impl Fn(u64, &Free) -> bool) -> Option<(u64, usize)> {
        self.shelves.range(sizes).find_map(|(size, shelf)| {
            let place = shelf.free.iter().position(|free| so(*size, free))?;
            Some((*size, place))
        })
    }

    /// Takes the buffer of a size at a place.
    fn remove(&mut self, (size, place): (u64, usize)) -> Option<Arc<Buffer>> {
        let shelf = self.shelves.get_mut(&size)?;
        let free = shelf.free.remove(place)?;
        shelf.spare = shelf.spare.min(shelf.free.len());
        if shelf.free.is_empty() {
            self.shelves.remove(&size);
        }
        self.bytes -= size;
        Some(free.buffer)
    }

    /// Takes exactly the buffers of these slices, or none if one of them is not free.
    pub(super) fn take_these<'a>(&mut self, slices: impl Iterator<Item = &'a Slice> + Clone) -> bool {
        let place = |list: &Self, buffer: &Arc<Buffer>| {
            list.shelves.get(&buffer.bytes)?.free.iter().position(|free| Arc::ptr_eq(&free.buffer, buffer))
        };
        if !slices.clone().all(|slice| place(self, &slice.buffer).is_some()) {
            return false;
        }
        for Slice { buffer, .. } in slices {
            if let Some(place) = place(self, buffer) {
                self.remove((buffer.bytes, place));
            }
        }
        true
    }

    /// Bytes of all its buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Frees buffers that no commands use, the least recently used first, until at most `most` bytes are retained.
    pub(super) fn shrink(&mut self, most: u64) {
        while self.bytes > most {
            let idle = self.shelves.iter().filter_map(|(size, shelf)| {
                let place = shelf.free.iter().position(Free::idle)?;
                Some((shelf.free[place].since, *size, place))
            });
            let Some((_, size, place)) = idle.min() else { return };
            self.remove((size, place));
        }
    }

    /// Frees what commands no longer use and is too much, and from time to time what was not needed since the last time.
    /// Returns whether it was time.
    pub(super) fn free_unneeded(&mut self) -> bool {
        self.shrink(self.most);
        if self.looked.elapsed() < IDLE {
            return false;
        }
        for shelf in self.shelves.values_mut() {
            let mut spare = shelf.spare;
            shelf.free.retain(|free| {
                let goes = spare > 0 && free.idle();
                spare -= usize::from(goes);
                !goes
            });
            shelf.spare = shelf.free.len();
        }
        self.shelves.retain(|_, shelf| !shelf.free.is_empty());
        self.bytes = self.shelves.iter().map(|(size, shelf)| size * shelf.free.len() as u64).sum();
        self.looked = Instant::now();
        true
    }

    /// Frees everything.
    pub(super) fn clear(&mut self) {
        self.shelves.clear();
        self.bytes = 0;
    }
}

/// Bytes of a buffer a quarter of which the largest of these sizes leaves free.
fn with_headroom(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 3).next_multiple_of(HEADROOM)
}
