//! Fault injection, so that tests can cover device failures.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A fault a device can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An allocation of device memory fails, or a call of the driver that needs some.
    Allocation,
    /// The device is lost at a submission.
    DeviceLost,
    /// A barrier between dispatches is left out.
    Barrier,
}

/// Whether any fault is armed.
static ANY: AtomicBool = AtomicBool::new(false);
static ARMED: Mutex<Vec<Armed>> = Mutex::new(Vec::new());

/// A fault that is to happen.
struct Armed {
    fault: Fault,
    /// Calls before it.
    after: u64,
    /// Calls that it hits then.
    times: u64,
    struck: u64,
}

/// Makes calls of that kind fail after `after` more successful ones; they keep failing until [`clear`].
pub fn inject(fault: Fault, after: u64) {
    inject_some(fault, after, u64::MAX);
}

/// As [`inject`], but so many calls alone fail.
pub fn inject_some(fault: Fault, after: u64, times: u64) {
    ARMED.lock().expect("no panic while held").push(Armed { fault, after, times, struck: 0 });
    ANY.store(true, Relaxed);
}

/// Disarms every fault; returns how many calls failed.
pub fn clear() -> u64 {
    let armed = std::mem::take(&mut *ARMED.lock().expect("no panic while held"));
    ANY.store(false, Relaxed);
    armed.iter().map(|armed| armed.struck).sum()
}

/// Returns whether `fault` happens now. Backends call this at every point where it could happen.
pub fn strikes(fault: Fault) -> bool {
    if !ANY.load(Relaxed) {
        return false;
    }
    let mut armed = ARMED.lock().expect("no panic while held");
    let mut now = false;
    for one in armed.iter_mut().filter(|one| one.fault == fault) {
        if one.after > 0 {
            one.after -= 1;
        } else if one.struck < one.times {
            one.struck += 1;
            now = true;
        }
    }
    now
}
