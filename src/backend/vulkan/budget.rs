//! The limit on the device memory of a program, and what is reserved of it.

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
        COUNTERS.bytes_held.fetch_add(bytes, Relaxed);
        Some(Charge { budget: self.clone(), bytes })
    }

    /// Bytes that are not reserved.
    pub(super) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.held.load(Relaxed))
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

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Relaxed);
        // The counter may have been reset in between.
        let _ = COUNTERS.bytes_held.fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(self.bytes)));
    }
}
