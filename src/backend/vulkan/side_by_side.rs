//! Work on several threads of its own, which hold no lock of rayon's pool.

use std::sync::Mutex;
use std::thread::{self, Builder};

use super::lock;
use crate::exit::{self, Request};
use crate::{Error, Result};

/// Calls `work` for every item, on as many threads as the processor has cores, `most` at most, in no defined order.
///
/// # Errors
/// `Interrupted` if items are left after a request to stop.
pub(super) fn for_each<T: Send>(
    items: impl Iterator<Item = T> + Send,
    most: usize,
    work: impl Fn(T) + Sync,
) -> Result<()> {
    let threads = match most {
        0 | 1 => 1,
        most => thread::available_parallelism().map_or(1, |n| n.get()).min(most),
    };
    let rest = Mutex::new(items);
    // In this order: an item that is taken is worked on.
    let next = || if exit::check().is_ok() { lock(&rest).next() } else { None };
    let share = || {
        while let Some(item) = next() {
            work(item);
        }
    };
    let request = Request::current();
    thread::scope(|scope| {
        for _ in 1..threads {
            // A thread that the system refuses leaves its share to the others.
            let own = || request.serve(share);
            let _ = Builder::new().name("grilly-load".into()).spawn_scoped(scope, own);
        }
        share();
    });
    if next().is_some() || exit::requested() { Err(Error::Interrupted) } else { Ok(()) }
}
