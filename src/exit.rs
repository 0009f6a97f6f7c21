//! A flag that the process is about to exit, so that long work can stop between two steps.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

static BEGUN: AtomicBool = AtomicBool::new(false);

/// Requests every running call to stop; this cannot be undone.
pub fn begin() {
    BEGUN.store(true, SeqCst);
}

/// Whether running calls should return [`crate::Error::Interrupted`] as soon as possible.
pub fn begun() -> bool {
    BEGUN.load(SeqCst)
}
