//! Time of each dispatch, by its label, while profiling is on.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::raw::lock;

static ON: AtomicBool = AtomicBool::new(false);
static TIMES: Mutex<BTreeMap<String, Entry>> = Mutex::new(BTreeMap::new());

/// What the dispatches of one label took so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Entry {
    /// How many there were.
    pub count: u64,
    /// All of them together.
    pub nanoseconds: f64,
}

/// Turns profiling on or off for the batches to come; turning it on forgets earlier times.
pub fn profile(on: bool) {
    if on {
        lock(&TIMES).clear();
    }
    ON.store(on, Relaxed);
}

/// The times so far, by label. A device without timestamps leaves none.
pub fn times() -> BTreeMap<String, Entry> {
    lock(&TIMES).clone()
}

pub(super) fn is_on() -> bool {
    ON.load(Relaxed)
}

pub(super) fn add(batch: &[(&str, f64)]) {
    let mut times = lock(&TIMES);
    for (label, nanoseconds) in batch {
        let entry = times.entry((*label).to_owned()).or_default();
        entry.count += 1;
        entry.nanoseconds += nanoseconds;
    }
}
