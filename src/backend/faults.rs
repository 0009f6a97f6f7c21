//! Fault injection, so that tests can cover device failures.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A fault a device can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An allocation of device memory fails.
    Allocation,
    /// The device is lost at a submission.
    DeviceLost,
    /// A barrier between dispatches is left out.
    Barrier,
}

/// Whether any fault is armed.
static ANY: AtomicBool = AtomicBool::new(false);
static ARMED: Mutex<Vec<(Fault, u64)>> = Mutex::new(Vec::new());

/// Makes calls of that kind fail after `after` more successful ones; they keep failing until [`clear`].
pub fn inject(fault: Fault, after: u64) {
    ARMED.lock().expect("no panic while held").push((fault, after));
    ANY.store(true, Relaxed);
}

/// Disarms every fault.
pub fn clear() {
    ARMED.lock().expect("no panic while held").clear();
    ANY.store(false, Relaxed);
}

/// Returns whether `fault` happens now. Backends call this at every point where it could happen.
pub fn strikes(fault: Fault) -> bool {
    if !ANY.load(Relaxed) {
        return false;
    }
    let mut armed = ARMED.lock().expect("no panic while held");
    let mut now = false;
    for (kind, left) in armed.iter_mut() {
        if *kind == fault {
            now |= *left == 0;
            *left = left.saturating_sub(1);
        }
    }
    now
}
