//! Host memory through which large arrays travel, in segments: while the device copies one, the host fills or reads the next. They
//! stay for later arrays, since memory that the device can reach costs milliseconds in the driver.

use std::sync::Arc;

use super::raw::{Buffer, Kind, Slice, Ticket};
use super::work::Work;
use crate::Result;

/// Bytes of a segment: arrays of more travel in segments.
pub(super) const SEGMENT: usize = 8 << 20;
/// Most segments that stay.
const MOST: usize = 4;

/// The segments that stay, some of them in use.
#[derive(Default)]
pub(super) struct Segments(Vec<Arc<Buffer>>);

impl Segments {
    /// One that no command uses.
    fn take(&mut self) -> Option<Arc<Buffer>> {
        let place = self.0.iter().position(|segment| Arc::strong_count(segment) == 1)?;
        Some(self.0.swap_remove(place))
    }

    /// Lets a segment stay, which commands may still use.
    pub(super) fn keep(&mut self, segment: Arc<Buffer>) {
        if self.0.len() < MOST {
            self.0.push(segment);
        }
    }

    /// Frees all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Work {
    /// A segment that no command uses.
    pub(super) fn segment(&mut self) -> Result<Arc<Buffer>> {
        self.release_finished()?;
        match self.segments.take() {
            Some(segment) => Ok(segment),
            None => self.buffer(Kind::Staging, SEGMENT as u64),
        }
    }

    /// Copies what earlier commands wrote to host memory, in a submission with all that was recorded before.
    pub(super) fn copy_out(&mut self, copies: impl IntoIterator<Item = (Slice, Slice)>) -> Result<Ticket> {
        let length = self.commands.length();
        self.commands.copy_written(copies);
        // What was to be copied stays; who reads again copies again.
        self.submit().inspect_err(|_| self.commands.cut(length))?;
        Ok(self.pool.last())
    }

    /// Copies bytes to the start of a buffer, each segment in a submission of its own.
    pub(super) fn fill(&mut self, buffer: &Arc<Buffer>, bytes: &[u8]) -> Result<()> {
        for (number, piece) in bytes.chunks(SEGMENT).enumerate() {
            let segment = self.segment()?;
            segment.map(0, piece.len() as u64, |memory| memory.copy_from_slice(piece))?;
            let words = piece.len().next_multiple_of(4) as u64;
            let to = Slice { offset: (number * SEGMENT) as u64, ..Slice::start(buffer, words) };
            self.commands.copy(Slice::start(&segment, words), to);
            self.segments.keep(segment);
            self.submit_early()?;
        }
        Ok(())
    }
}
