//! Memory of the device for calls: results, inputs, counts, and what is retained for later ones.

use std::sync::Arc;

use super::free_list::{Fit, Writer};
use super::raw::{Buffer, Kind, Slice};
use super::staging::SEGMENT;
use super::work::{GUARD, MARK, MUCH_STAGING, Work, guarded};
use crate::backend::faults::{Fault, strikes};
use crate::ops::Counts;
use crate::{Error, Result};

/// Most packed-batch sizes whose counts are cached on the device.
const MOST_COUNTS: usize = 64;
/// While less than this fraction (1/16) of the device's memory is left, because others use it, nothing is retained.
const SCARCE: u64 = 16;

impl Work {
    /// Retains the buffer of a result that is not read again; of a lost device there is no later one.
    pub(super) fn keep(&mut self, result: Slice, fit: Fit) {
        if self.opened.device.lost() {
            return self.clear_retained();
        }
        self.free.keep(result, fit);
    }

    /// Frees what is retained for later.
    pub(super) fn clear_retained(&mut self) {
        self.uploaded.clear();
        self.free.clear();
        self.host.clear();
    }

    /// Frees what is retained and no commands use.
    pub(super) fn release_idle(&mut self) {
        self.uploaded.clear();
        self.host.shrink(0);
        self.free.shrink(0);
    }

    /// Frees what is retained and was not needed for a while, or all where other processes need memory.
    pub(super) fn free_unneeded(&mut self) {
        let looked = self.free.free_unneeded() | self.host.free_unneeded();
        let device = &self.opened.device;
        if looked && device.memory_left() < device.capabilities.memory / SCARCE {
            self.release_idle();
        }
    }

    /// Lets retained buffers go, the least recently used first, until the budget has `bytes` left.
    fn make_way(&mut self, bytes: u64) {
        self.uploaded.clear();
        for list in [&mut self.host, &mut self.free] {
            let short = bytes.saturating_sub(self.budget.left());
            list.shrink(list.bytes().saturating_sub(short));
        }
    }

    /// Allocates a buffer. When memory is short, retained buffers that no commands use go first, then it waits for all work
    /// and frees what is not needed.
    pub(super) fn buffer(&mut self, kind: Kind, bytes: u64) -> Result<Arc<Buffer>> {
        let bytes = bytes.next_multiple_of(16);
        if bytes > self.budget.left() {
            self.release_finished()?;
            self.make_way(bytes);
        }
        match Buffer::new(&self.opened.device, kind, bytes, &self.budget) {
            Err(Error::OutOfMemory { .. }) => {
                self.finish()?;
                self.replays.clear();
                self.clear_retained();
                Buffer::new(&self.opened.device, kind, bytes, &self.budget)
            }
            made => made,
        }
    }

    /// Memory for `bytes`, in a retained buffer or a new one, which has headroom where sizes vary and memory is ample.
    pub(super) fn memory(&mut self, kind: Kind, bytes: u64, fit: Fit) -> Result<Slice> {
        let bytes = bytes.max(4).next_multiple_of(16);
        let fit = if self.budget.is_ample() { fit } else { Fit::Exact };
        let taken = match kind {
            Kind::Staging => self.host.take(bytes, fit, Writer::Host),
            _ => self.free.take(bytes, fit, Writer::Device),
        };
        let buffer = match taken {
            // What is refused is refused where memory is retained, too.
            Ok(_) if strikes(Fault::Allocation) => self.buffer(kind, bytes)?,
            Ok(buffer) => buffer,
            Err(more) => {
                let device = &self.opened.device;
                let roomy = (more > bytes).then(|| Buffer::new(device, kind, more, &self.budget).ok());
                roomy.flatten().map_or_else(|| self.buffer(kind, bytes), Ok)?
            }
        };
        Ok(Slice { bytes, ..Slice::whole(buffer) })
    }

    /// Memory for the host to write or read; what is retained of it is of commands that are finished.
    pub(super) fn staging(&mut self, bytes: u64) -> Result<Slice> {
        self.release_finished()?;
        self.memory(Kind::Staging, bytes, Fit::Near)
    }

    /// Memory for a dispatch's result.
    pub(super) fn result(&mut self, bytes: u64, fit: Fit) -> Result<Slice> {
        if guarded() {
            return Ok(Slice::whole(self.buffer(Kind::Arrays, bytes.max(4))?));
        }
        self.memory(Kind::Arrays, bytes, fit)
    }

    /// Memory for a dispatch's result, with a guard band behind it.
    pub(super) fn guarded_result(&mut self, bytes: u64) -> Result<Slice> {
        let (result, marks) = (self.result(bytes + GUARD, Fit::Exact)?, self.staging(GUARD)?);
        marks.buffer.map(0, GUARD, |memory| memory.fill(MARK))?;
        self.commands.copy(marks.clone(), Slice { offset: bytes, bytes: GUARD, ..result.clone() });
        self.host.keep(marks, Fit::Near);
        Ok(result)
    }

    /// Memory with these bytes.
    pub(super) fn upload(&mut self, bytes: &[u8]) -> Result<Slice> {
        let words = bytes.len().next_multiple_of(4) as u64;
        let array = self.memory(Kind::Arrays, words, Fit::Near)?;
        // Earlier commands may use a retained buffer, which no other owner does.
        let used = Arc::strong_count(&array.buffer) > 1;
        if bytes.len() > SEGMENT {
            self.fill(&array, bytes, used)?;
            return Ok(array);
        }
        let staging = self.staging(words)?;
        staging.buffer.map(0, bytes.len() as u64, |memory| memory.copy_from_slice(bytes))?;
        let (from, to) = (Slice { bytes: words, ..staging.clone() }, Slice { bytes: words, ..array.clone() });
        if used {
            self.commands.copy_written([(from, to)]);
        } else {
            self.commands.copy(from, to);
        }
        self.host.keep(staging, Fit::Near);
        self.staged += words;
        if self.staged > MUCH_STAGING {
            self.submit_early()?;
        }
        Ok(array)
    }

    /// A copy of an array.
    pub(super) fn copy(&mut self, from: Slice) -> Result<Slice> {
        let copy = self.memory(Kind::Arrays, from.bytes, Fit::Exact)?;
        self.commands.copy_written([(from, copy.clone())]);
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
