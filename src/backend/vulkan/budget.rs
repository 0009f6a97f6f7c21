//! The limit on the device memory of a program, what is reserved of it, and what of that is retained for later.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::stats::COUNTERS;

/// Limit on the device memory of one program.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    held: AtomicU64,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub(super) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Budget { limit, held: AtomicU64::new(0) })
    }

    /// Reserves `bytes`, if the budget has them left.
    pub(super) fn charge(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let add = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.held.fetch_update(Relaxed, Relaxed, add).ok()?;
        add_to(&COUNTERS.bytes_held, bytes);
        Some(Charge { budget: self.clone(), bytes })
    }

    /// Bytes that are not reserved.
    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.held.load(Relaxed))
    }

    /// Whether at least half of it is not reserved.
    pub(super) fn is_ample(&self) -> bool {
        self.left() >= self.limit / 2
    }

    /// All bytes.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes reserved now.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }
}

/// Bytes reserved from a budget, released on drop.
#[derive(Debug)]
pub(super) struct Charge {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Charge {
    /// So many.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Relaxed);
        take_from(&COUNTERS.bytes_held, self.bytes);
    }
}

/// Reserved bytes of a buffer that holds nothing: counted as retained, and no longer as held, until it is dropped.
#[derive(Debug)]
pub(super) struct Retained(u64);

impl Retained {
    /// So many bytes.
    pub(super) fn new(bytes: u64) -> Self {
        take_from(&COUNTERS.bytes_held, bytes);
        add_to(&COUNTERS.bytes_retained, bytes);
        Retained(bytes)
    }
}

impl Drop for Retained {
    fn drop(&mut self) {
        take_from(&COUNTERS.bytes_retained, self.0);
        add_to(&COUNTERS.bytes_held, self.0);
    }
}

fn add_to(counter: &AtomicU64, bytes: u64) {
    counter.fetch_add(bytes, Relaxed);
}

fn take_from(counter: &AtomicU64, bytes: u64) {
    counter.fetch_sub(bytes, Relaxed);
}
