//! Work on several threads of its own, which hold no lock of rayon's pool.

use std::panic::resume_unwind;
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

/// Runs `aside` in a thread of its own beside `own`, and returns the results of both. Where the system refuses a thread, one
/// after the other.
///
/// # Errors
/// That of `own`, else that of `aside`.
pub(super) fn both<A: Send, B>(
    own: impl FnOnce() -> Result<B>,
    aside: impl FnOnce() -> Result<A> + Send,
) -> Result<(B, A)> {
    let request = Request::current();
    let aside = Mutex::new(Some(aside));
    let work = || {
        let work = lock(&aside).take();
        work.map(|work| request.serve(work))
    };
    let (own, done) = thread::scope(|scope| {
        let started = Builder::new().name("grilly-load".into()).spawn_scoped(scope, work);
        let own = own();
        let done = started.ok().and_then(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        (own, done)
    });
    let own = own?;
    Ok((own, done.or_else(work).unwrap_or(Err(Error::Interrupted))?))
}
