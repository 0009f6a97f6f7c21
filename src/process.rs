//! Which process this is: what belongs to one may not be touched in another that was forked from it.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// This process' id where [`remember`] was called, else 0.
static ID: AtomicU32 = AtomicU32::new(0);

/// The id of this process. The system is asked each time, unless it is remembered.
///
/// ```
/// assert_eq!(grilly::process::id(), std::process::id());
/// ```
pub fn id() -> u32 {
    match ID.load(Relaxed) {
        0 => process::id(),
        id => id,
    }
}

/// Remembers the id of this process. Only who calls this again in every process forked from here, before anything else
/// runs there, may call it at all.
pub fn remember() {
    ID.store(process::id(), Relaxed);
}
