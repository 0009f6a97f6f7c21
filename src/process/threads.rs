//! The threads of the process for work that has no pool of its own. A fork has the memory of its parent's pool, rayon's global
//! one included, but none of its threads, and would wait for them for ever: it gets a pool of its own.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Error, Result, exit};

/// The process that uses threads first, and its pool.
static FIRST: AtomicU32 = AtomicU32::new(0);
static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
/// A fork of it and its pool; the first process locks this only where it had no threads at first.
static FORK: Mutex<Option<(u32, &'static ThreadPool)>> = Mutex::new(None);

/// Runs work on the threads of a pool: the one that runs this, or else that of the process, with as many as rayon has by default.
/// A request to stop reaches it there.
///
/// # Errors
/// `Unsupported` when the system cannot create threads.
pub fn run<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T> {
    match rayon::current_thread_index() {
        Some(_) => Ok(work()),
        None => Ok(exit::on(pool()?, work)),
    }
}

fn pool() -> Result<&'static ThreadPool> {
    let own = super::id();
    let first = FIRST.compare_exchange(0, own, SeqCst, SeqCst).map_or_else(|first| first, |_| own);
    if first == own
        && let Some(pool) = POOL.get_or_init(|| make().ok())
    {
        return Ok(pool);
    }
    let mut fork = FORK.lock().unwrap_or_else(PoisonError::into_inner);
    match *fork {
        Some((process, pool)) if process == own => Ok(pool),
        _ => Ok(fork.insert((own, Box::leak(Box::new(make()?)))).1),
    }
}

fn make() -> Result<ThreadPool> {
    let build = ThreadPoolBuilder::new().thread_name(|i| format!("grilly-{i}")).build();
    build.map_err(|cause| Error::unsupported("threads", cause.to_string()))
}
