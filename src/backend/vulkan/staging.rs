//! Host memory through which large arrays travel, in segments: while the device copies one, the host fills or reads the next.

use super::free_list::Fit;
use super::raw::{Slice, Ticket};
use super::work::Work;
use crate::Result;

/// Bytes of a segment: arrays of more travel in segments.
pub(super) const SEGMENT: usize = 8 << 20;

impl Work {
    /// A segment that no command uses.
    pub(super) fn segment(&mut self) -> Result<Slice> {
        self.staging(SEGMENT as u64)
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
            let segment = self.segment()?;
            segment.buffer.map(0, piece.len() as u64, |memory| memory.copy_from_slice(piece))?;
            let words = piece.len().next_multiple_of(4) as u64;
            let from = Slice { bytes: words, ..segment.clone() };
            let to = Slice { offset: (number * SEGMENT) as u64, bytes: words, ..array.clone() };
            if used && number == 0 {
                self.commands.copy_written([(from, to)]);
            } else {
                self.commands.copy(from, to);
            }
            self.host.keep(segment, Fit::Near);
            self.submit_early()?;
        }
        Ok(())
    }
}
