//! Whether the process is about to exit, so that long work can stop between two steps.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

static BEGUN: AtomicBool = AtomicBool::new(false);

/// Tells every running call to stop; there is no way back.
pub fn begin() {
    BEGUN.store(true, SeqCst);
}

/// Whether running calls should return [`crate::Error::Interrupted`] as soon as they can.
pub fn begun() -> bool {
    BEGUN.load(SeqCst)
}
