//! Time of each dispatch, by its label and its kernel, while profiling is on.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::lock;
use super::raw::{Launch, Timing};

static ON: AtomicBool = AtomicBool::new(false);
static TIMES: Mutex<Times> = Mutex::new(BTreeMap::new());

/// By label (a node of a plan, an operation on arrays) and by the kernel's name.
pub type Times = BTreeMap<(String, &'static str), Entry>;

/// Time used so far by the dispatches of one label and kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Entry {
    /// Number of dispatches.
    pub count: u64,
    /// Their total time.
    pub nanoseconds: f64,
}

/// Turns profiling on or off for later batches; turning it on clears earlier times.
pub fn profile(on: bool) {
    if on {
        lock(&TIMES).clear();
    }
    ON.store(on, Relaxed);
}

/// The times so far; empty on a device without timestamps.
pub fn times() -> Times {
    lock(&TIMES).clone()
}

pub(super) fn timing() -> Timing {
    if ON.load(Relaxed) { Timing::On } else { Timing::Off }
}

pub(super) fn add(batch: &[(&Launch, f64)]) {
    let mut times = lock(&TIMES);
    for (launch, nanoseconds) in batch {
        let entry = times.entry((launch.label.clone(), launch.pipeline.variant.name)).or_default();
        entry.count += 1;
        entry.nanoseconds += nanoseconds;
    }
}
