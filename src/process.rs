//! The id of the current process: objects of a process must not be used in its forks; and what it takes of the system.

pub mod files;
pub mod lock;
pub mod memory;
pub mod processor;
pub mod threads;

use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The id of this process after [`remember`], else 0.
static ID: AtomicU32 = AtomicU32::new(0);

/// The id of this process, queried from the system each time unless it is cached.
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

/// Caches the id of this process. May be called only by code that calls it again in every process forked from here,
/// before anything else runs there. There it also closes the parent's locks.
pub fn remember() {
    let id = process::id();
    if ![0, id].contains(&ID.swap(id, Relaxed)) {
        lock::close_inherited();
    }
}
