//! Host memory through which large arrays travel, in segments: while the device copies one, the host fills or reads the next. Those
//! of uploads are taken in turn, so that their number does not depend on how fast the device is.

use std::sync::Arc;

use super::budget::Retained;
use super::raw::{Kind, Slice, Ticket};
use super::work::Work;
use crate::Result;

/// Bytes of a segment: arrays of more travel in segments.
pub(super) const SEGMENT: usize = 8 << 20;
/// Most segments of uploads.
const MOST: usize = 4;

/// A segment of uploads, and the submission that copies it.
pub(super) struct Uploaded {
    // Dropped before the segment, whose bytes it counts.
    _retained: Retained,
    segment: Slice,
    copied: Ticket,
}

impl Work {
    /// A segment for the next part of an upload: a new one, or that of the earliest part once it is copied.
    fn next_segment(&mut self) -> Result<Slice> {
        let more = self.uploaded.len() < MOST && self.budget.is_ample();
        let Some(Uploaded { segment, copied, .. }) = (if more { None } else { self.uploaded.pop_front() }) else {
            return Ok(Slice::whole(self.buffer(Kind::Staging, SEGMENT as u64)?));
        };
        let device = self.opened.device.clone();
        device.wait_or_stop(copied)?;
        self.release_finished()?;
        if Arc::strong_count(&segment.buffer) > 1 {
            // Its copy still waited for memory.
            self.submit()?;
            device.wait_or_stop(self.pool.last())?;
            self.release_finished()?;
        }
        Ok(segment)
    }

    /// Copies what earlier commands wrote to host memory, in a submission with all that was recorded before.
    pub(super) fn copy_out(&mut self, copies: impl IntoIterator<Item = (Slice, Slice)>) -> Result<Ticket> {
        let length = self.commands.length();
        self.commands.copy_written(copies);
        // What was to be copied stays; who reads again copies again.
        self.submit().inspect_err(|_| self.commands.cut(length))?;
        Ok(self.pool.last())
    }

    /// Copies bytes to the start of an array, each segment in a submission of its own; the first waits for earlier commands if they
    /// may use the array's buffer.
    pub(super) fn fill(&mut self, array: &Slice, bytes: &[u8], used: bool) -> Result<()> {
        for (number, piece) in bytes.chunks(SEGMENT).enumerate() {
            let segment = self.next_segment()?;
            segment.buffer.map(0, piece.len() as u64, |memory| memory.copy_from_slice(piece))?;
            let words = piece.len().next_multiple_of(4) as u64;
            let from = Slice { bytes: words, ..segment.clone() };
            let to = Slice { offset: (number * SEGMENT) as u64, bytes: words, ..array.clone() };
            if used && number == 0 {
                self.commands.copy_written([(from, to)]);
            } else {
                self.commands.copy(from, to);
            }
            self.submit_early()?;
            let (_retained, copied) = (Retained::new(segment.buffer.reserved()), self.pool.last());
            self.uploaded.push_back(Uploaded { _retained, segment, copied });
        }
        Ok(())
    }
}
