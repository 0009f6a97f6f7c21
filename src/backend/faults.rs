//! Faults on request, so that tests can show what happens when a device fails.

use std::sync::Mutex;

/// A fault a device can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An allocation of device memory fails.
    Allocation,
    /// The device is lost at a submission.
    DeviceLost,
}

static ARMED: Mutex<Vec<(Fault, u64)>> = Mutex::new(Vec::new());

/// Makes the call of that kind fail after `after` more that succeed; it goes on failing until [`clear`].
pub fn inject(fault: Fault, after: u64) {
    ARMED.lock().expect("no panic while held").push((fault, after));
}

/// Disarms every fault.
pub fn clear() {
    ARMED.lock().expect("no panic while held").clear();
}

/// Called by a backend where `fault` could happen: whether it happens now.
pub fn strikes(fault: Fault) -> bool {
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
