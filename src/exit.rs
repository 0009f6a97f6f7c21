//! Requests to stop, which long work answers between two steps: of the process, which is about to exit, and of the caller,
//! such as Ctrl-C.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
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

/// Whether the caller wants the work to stop, and when it was asked last.
struct Caller {
    stop: Box<dyn FnMut() -> bool>,
    asked: Instant,
}

thread_local! {
    static CALLER: RefCell<Option<Caller>> = const { RefCell::new(None) };
}

/// Runs work of this thread that [`check`] ends once `stop` is true.
pub fn stoppable<T>(stop: Box<dyn FnMut() -> bool>, work: impl FnOnce() -> T) -> T {
    /// Also after a panic, the caller is forgotten.
    struct Before(Option<Caller>);
    impl Drop for Before {
        fn drop(&mut self) {
            CALLER.set(self.0.take());
        }
    }
    let _before = Before(CALLER.replace(Some(Caller { stop, asked: Instant::now() })));
    work()
}

/// Called by long work between two steps that it can stop at.
///
/// # Errors
/// `Interrupted` when the process is about to exit, or the caller wants a stop.
pub fn check() -> Result<()> {
    // Taken out, so that what it runs may check, too.
    let Some(mut caller) = CALLER.take() else {
        return if begun() { Err(Error::Interrupted) } else { Ok(()) };
    };
    let stop = caller.asked.elapsed() >= INTERVAL && {
        let stop = (caller.stop)();
        caller.asked = Instant::now();
        stop
    };
    CALLER.set(Some(caller));
    if stop || begun() { Err(Error::Interrupted) } else { Ok(()) }
}

/// The result of work that has no steps to stop at: it runs in a thread of its own, which is abandoned at a request to stop.
///
/// # Errors
/// As [`check`], and `Unsupported` if there is no thread.
pub fn abandonable<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (sender, receiver) = mpsc::channel();
    // If nobody waits any more, the result is dropped.
    let thread = thread::Builder::new().name("grilly-work".into()).spawn(move || drop(sender.send(work())));
    let thread = thread.map_err(|cause| Error::unsupported("a thread", cause.to_string()))?;
    loop {
        match receiver.recv_timeout(INTERVAL) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => match thread.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => return Err(Error::Interrupted),
            },
            Err(RecvTimeoutError::Timeout) => check()?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_is_asked_now_and_then_and_only_within_its_work() {
        let mut asked = 0;
        let stop = Box::new(move || {
            asked += 1;
            asked == 2
        });
        let start = Instant::now();
        let rounds = stoppable(stop, || (0..).find(|_| check().is_err()).unwrap());
        assert!(rounds > 2 && start.elapsed() >= 2 * INTERVAL);
        check().unwrap();
    }

    #[test]
    fn work_without_steps_is_abandoned() {
        assert_eq!(abandonable(|| 3).unwrap(), 3);
        let start = Instant::now();
        let found = stoppable(Box::new(|| true), || abandonable(|| thread::sleep(Duration::from_secs(20))));
        assert!(matches!(found, Err(Error::Interrupted)) && start.elapsed() < Duration::from_secs(10));
    }
}
