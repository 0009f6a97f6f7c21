//! Requests to stop, which long work answers between two steps: of the process, which is about to exit, and of the caller,
//! such as Ctrl-C.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result};

static BEGUN: AtomicBool = AtomicBool::new(false);

/// Requests every running call to stop; this cannot be undone.
pub fn begin() {
    BEGUN.store(true, SeqCst);
}

/// Whether running calls should return [`crate::Error::Interrupted`] as soon as possible.
pub fn begun() -> bool {
    BEGUN.load(SeqCst)
}

/// Least time between two questions to the caller.
const INTERVAL: Duration = Duration::from_millis(50);
/// Bytes of the stack of a thread that works for a caller: as many as that of a main thread.
const STACK: usize = 8 << 20;

/// A request to stop a call, seen by all threads that work for it. It stays.
#[derive(Clone, Default)]
pub struct Request(Arc<AtomicBool>);

impl Request {
    /// That of the call for which this thread works; one that nobody makes if there is no such call.
    pub fn current() -> Self {
        WORK.with_borrow_mut(|work| work.as_mut().map(|work| work.request.get_or_insert_default().clone()))
            .unwrap_or_default()
    }

    /// Whether it was made, or the process is about to exit.
    #[inline(always)]
    pub fn made(&self) -> bool {
        self.0.load(Relaxed) || BEGUN.load(Relaxed)
    }

    /// Runs work of this thread for the call.
    pub fn serve<T>(&self, work: impl FnOnce() -> T) -> T {
        as_work(Some(Work { stop: None, asked: None, request: Some(self.clone()) }), work)
    }
}

/// What a thread works for.
struct Work {
    /// Whether the caller wants a stop; only in the thread of the caller.
    stop: Option<fn() -> bool>,
    /// When it was asked last; at first when it might have been, so that short work does not look at the clock.
    asked: Option<Instant>,
    /// Made when another thread needs it.
    request: Option<Request>,
}

thread_local! {
    static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
}

fn as_work<T>(own: Option<Work>, work: impl FnOnce() -> T) -> T {
    /// Also after a panic, the thread works for what it worked for before.
    struct Before(Option<Work>);
    impl Drop for Before {
        fn drop(&mut self) {
            WORK.set(self.0.take());
        }
    }
    let _before = Before(WORK.replace(own));
    work()
}

/// Runs work of this thread that [`check`] ends once `stop` is true.
pub fn stoppable<T>(stop: fn() -> bool, work: impl FnOnce() -> T) -> T {
    as_work(Some(Work { stop: Some(stop), asked: None, request: None }), work)
}

/// Runs work that a request to stop must not divide, such as an update in place.
pub fn undivided<T>(work: impl FnOnce() -> T) -> T {
    as_work(None, work)
}

/// Whether this thread's work should stop, by what its caller has answered so far.
pub fn requested() -> bool {
    let made = |work: &Option<Work>| work.as_ref()?.request.as_ref().map(Request::made);
    WORK.with_borrow(made).unwrap_or_else(begun)
}

/// Called by long work between two steps that it can stop at.
///
/// # Errors
/// `Interrupted` when the process is about to exit, or the caller wants a stop.
pub fn check() -> Result<()> {
    if requested() {
        return Err(Error::Interrupted);
    }
    // Taken out, so that what it runs may check, too.
    let Some(mut work) = WORK.take() else { return Ok(()) };
    if let Some(stop) = work.stop
        && work.asked.get_or_insert_with(Instant::now).elapsed() >= INTERVAL
    {
        if stop() {
            work.request.get_or_insert_default().0.store(true, SeqCst);
        }
        work.asked = Some(Instant::now());
    }
    WORK.set(Some(work));
    if requested() { Err(Error::Interrupted) } else { Ok(()) }
}

/// The result of work that may take long without a step to stop at: it runs in a thread of its own, which is abandoned at a
/// request to stop, and ends at its next [`check`].
///
/// # Errors
/// As [`check`], and `Unsupported` if there is no thread.
pub fn abandonable<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (sender, receiver) = mpsc::channel();
    let request = Request::default();
    let own = request.clone();
    // If nobody waits any more, the result is dropped.
    let start = thread::Builder::new().name("grilly-work".into()).stack_size(STACK);
    let thread = start.spawn(move || drop(sender.send(own.serve(work))));
    let thread = thread.map_err(|cause| Error::unsupported("a thread", cause.to_string()))?;
    loop {
        match receiver.recv_timeout(INTERVAL) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => return Err(Error::Interrupted),
            },
            Err(RecvTimeoutError::Timeout) => check().inspect_err(|_| request.0.store(true, SeqCst))?,
        }
    }
}

/// Runs work on a pool of threads, while this thread asks its caller for a request to stop, which the work sees.
pub fn on<T: Send>(pool: &rayon::ThreadPool, work: impl FnOnce() -> T + Send) -> T {
    let asks = WORK.with_borrow(|work| work.as_ref().is_some_and(|work| work.stop.is_some()));
    let request = Request::current();
    if !asks {
        return pool.install(|| request.serve(work));
    }
    let (sender, receiver) = mpsc::channel::<()>();
    let mut result = None;
    pool.in_place_scope(|scope| {
        scope.spawn(|_| {
            // Dropped at the end of the work, also after a panic, which the scope passes on.
            let _end = sender;
            result = Some(request.serve(work));
        });
        while receiver.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            // The work ends at its own check.
            let _ = check();
        }
    });
    result.expect("the scope has ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static ASKED: Cell<u32> = const { Cell::new(0) };
    }

    fn at_the_second_time() -> bool {
        ASKED.set(ASKED.get() + 1);
        ASKED.get() == 2
    }

    #[test]
    fn the_caller_is_asked_now_and_then_and_only_within_its_work() {
        let start = Instant::now();
        let rounds = stoppable(at_the_second_time, || (0..).find(|_| check().is_err()).unwrap());
        assert!(rounds > 2 && start.elapsed() >= 2 * INTERVAL);
        check().unwrap();
    }

    #[test]
    fn work_without_steps_is_abandoned() {
        assert_eq!(abandonable(|| 3).unwrap(), 3);
        let start = Instant::now();
        let found = stoppable(|| true, || abandonable(|| thread::sleep(Duration::from_secs(20))));
        assert!(matches!(found, Err(Error::Interrupted)) && start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn abandoned_work_ends_at_its_check() {
        let (sender, receiver) = mpsc::channel();
        let work = move || {
            while check().is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
            sender.send(()).unwrap();
        };
        assert!(matches!(stoppable(|| true, || abandonable(work)), Err(Error::Interrupted)));
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn threads_of_a_pool_see_the_request_but_in_undivided_work() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let rounds = || (0u64..).find(|_| check().is_err()).unwrap();
        assert!(stoppable(|| true, || on(&pool, rounds)) > 0);
        let wait = || {
            (0..20).all(|_| {
                thread::sleep(INTERVAL / 10);
                undivided(check).is_ok()
            })
        };
        assert!(stoppable(|| true, || on(&pool, wait)));
        assert_eq!(on(&pool, || 3), 3);
    }
}
