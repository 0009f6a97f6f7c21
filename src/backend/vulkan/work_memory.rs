//! Memory of the device for calls: results, inputs, counts, and what is retained for later ones.

use std::sync::Arc;

use super::free_list::Held;
use super::raw::{Buffer, Kind, Slice};
use super::staging::SEGMENT;
use super::work::{GUARD, MARK, Work, guarded};
use crate::ops::Counts;
use crate::{Error, Result};

/// Most packed-batch sizes whose counts are cached on the device.
const MOST_COUNTS: usize = 64;
/// At most this fraction (1/8) of the device's memory is retained for later results.
const KEPT: u64 = 8;
/// Bytes of staging memory at which a list is submitted.
const MUCH_STAGING: u64 = 256 << 20;

impl Work {
    /// Retains a buffer that is not read again for later results.
    pub(super) fn keep(&mut self, buffer: Arc<Buffer>, held: Held) {
        self.free.keep(buffer, held, self.opened.device.capabilities.memory / KEPT);
    }

    /// Allocates a buffer. When memory is short, waits for all work and frees unneeded buffers first.
    pub(super) fn buffer(&mut self, kind: Kind, bytes: u64) -> Result<Arc<Buffer>> {
        let bytes = bytes.next_multiple_of(16);
        match Buffer::new(&self.opened.device, kind, bytes, &self.budget) {
            Err(Error::OutOfMemory { .. }) => {
                self.finish()?;
                self.replays.clear();
                self.free.clear();
                self.segments.clear();
                Buffer::new(&self.opened.device, kind, bytes, &self.budget)
            }
            made => made,
        }
    }

    /// Memory for a dispatch's result.
    pub(super) fn result(&mut self, bytes: u64) -> Result<Slice> {
        let bytes = bytes.max(4).next_multiple_of(16);
        let buffer = match self.free.take(bytes).filter(|_| !guarded()) {
            Some(buffer) => buffer,
            None => self.buffer(Kind::Arrays, bytes)?,
        };
        Ok(Slice::whole(buffer))
    }

    /// Memory for a dispatch's result, with a guard band behind it.
    pub(super) fn guarded_result(&mut self, bytes: u64) -> Result<Slice> {
        let (result, marks) = (self.result(bytes + GUARD)?, self.buffer(Kind::Staging, GUARD)?);
        marks.map(0, GUARD, |memory| memory.fill(MARK))?;
        self.commands.copy(Slice::whole(marks), Slice { offset: bytes, bytes: GUARD, ..result.clone() });
        Ok(result)
    }

    /// A new buffer with these bytes.
    pub(super) fn upload(&mut self, bytes: &[u8]) -> Result<Arc<Buffer>> {
        let words = bytes.len().next_multiple_of(4) as u64;
        let buffer = self.buffer(Kind::Arrays, words)?;
        if bytes.len() > SEGMENT {
            self.fill(&buffer, bytes)?;
            return Ok(buffer);
        }
        let staging = self.buffer(Kind::Staging, words)?;
        staging.map(0, bytes.len() as u64, |memory| memory.copy_from_slice(bytes))?;
        self.commands.copy(Slice::start(&staging, words), Slice::start(&buffer, words));
        self.staged += words;
        if self.staged > MUCH_STAGING {
            self.submit_early()?;
        }
        Ok(buffer)
    }

    /// A copy of a buffer.
    pub(super) fn copy(&mut self, from: Slice) -> Result<Arc<Buffer>> {
        let copy = self.buffer(Kind::Arrays, from.bytes)?;
        self.commands.copy_written([(from, Slice::whole(copy.clone()))]);
        Ok(copy)
    }

    /// The memory of a batch's counts.
    pub(super) fn counts(&mut self, counts: Counts) -> Result<Slice> {
        if let Some(known) = self.counts.get(&counts) {
            return Ok(known.clone());
        }
        if self.counts.len() >= MOST_COUNTS {
            self.counts.clear();
        }
        let words = counts.words();
        let bytes = bytemuck::bytes_of(&words);
        let buffer = self.buffer(Kind::Inputs, bytes.len() as u64)?;
        buffer.map(0, bytes.len() as u64, |memory| memory.copy_from_slice(bytes))?;
        Ok(self.counts.entry(counts).or_insert(Slice::whole(buffer)).clone())
    }

    /// The memory of an operand without elements: a few bytes, which no kernel uses.
    pub(super) fn nothing(&mut self) -> Result<Slice> {
        let nothing = match self.nothing.take() {
            Some(nothing) => nothing,
            None => Slice::whole(self.buffer(Kind::Arrays, 16)?),
        };
        Ok(self.nothing.insert(nothing).clone())
    }
}
