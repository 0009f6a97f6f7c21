//! Letting go of the interpreter's lock and taking it again, safely while the interpreter is exiting.
//!
//! A thread that asks for the lock of a finalising interpreter is ended by it in the middle of Rust code, which
//! aborts the process. So every call that lets go of the lock is counted until it holds it again; at exit
//! [`shut_down`] waits for those calls, and threads that are later than its patience are parked for good.

use std::panic::resume_unwind;
use std::process;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error::PyResult;
use grilly::Error;

/// How long exit waits for running calls to stop.
const PATIENCE: Duration = Duration::from_millis(1200);
/// How long exit then waits for threads that are already asking for the lock.
const LAST_CALL: Duration = Duration::from_millis(200);
/// How often a call that waits for work asks for signals.
const SIGNALS: Duration = Duration::from_millis(50);

struct State {
    /// The interpreter is exiting: no new call begins.
    closing: bool,
    /// Exit has gone on: nobody may ask for the lock any more.
    abandoned: bool,
    /// Calls that have let go of the lock and do not hold it again yet.
    inside: usize,
    /// Those, and others, that are asking for the lock now.
    returning: usize,
}

static STATE: Mutex<State> = Mutex::new(State { closing: false, abandoned: false, inside: 0, returning: 0 });
static CHANGED: Condvar = Condvar::new();
static PROCESS: OnceLock<u32> = OnceLock::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the process that imported the module, to tell it from its forks, and now the fork that this is.
#[pyfunction]
pub(crate) fn remember_process() {
    PROCESS.get_or_init(process::id);
    grilly::process::remember();
}

/// Counts a call; dropping it, with the lock held again, ends the count.
struct Inside;

impl Inside {
    fn enter() -> Result<Self, Error> {
        let mut state = state();
        if state.closing {
            return Err(Error::Interrupted);
        }
        state.inside += 1;
        Ok(Inside)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut state = state();
        state.inside = state.inside.saturating_sub(1);
        state.returning = state.returning.saturating_sub(1);
        // Only exit waits.
        if state.closing {
            CHANGED.notify_all();
        }
    }
}

/// Runs `work` without the interpreter's lock.
///
/// # Errors
/// `StoppedError` once the interpreter is exiting, and what `work` returns.
pub(crate) fn without<T: Send>(py: Python<'_>, work: impl FnOnce() -> grilly::Result<T> + Send) -> PyResult<T> {
    let inside = Inside::enter()?;
    let result = py.detach(|| {
        let result = work();
        may_return();
        result
    });
    drop(inside);
    Ok(result?)
}

/// [`without`] for work that nothing can stop: it runs in a thread of its own, and when a signal's handler raises, nobody
/// waits for it any longer.
///
/// # Errors
/// As [`without`], and what the handler raises.
pub(crate) fn without_waiting<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> grilly::Result<T> + Send + 'static,
) -> PyResult<T> {
    let mut raised = None;
    let result = without(py, || {
        let (sender, receiver) = mpsc::channel();
        // When nobody waits any longer, nobody wants the result.
        let thread = thread::Builder::new().name("grilly-work".into()).spawn(move || drop(sender.send(work())));
        let thread = thread.map_err(|e| Error::Unsupported { what: "a thread".into(), reason: e.to_string() })?;
        loop {
            match receiver.recv_timeout(SIGNALS) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Disconnected) => match thread.join() {
                    Err(panic) => resume_unwind(panic),
                    Ok(()) => return Err(Error::Interrupted),
                },
                Err(RecvTimeoutError::Timeout) => match with(|py| py.check_signals()) {
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        raised = Some(error);
                        return Err(Error::Interrupted);
                    }
                    None => return Err(Error::Interrupted),
                },
            }
        }
    });
    raised.map_or(result, |exception| Err(exception.into()))
}

/// Runs `work` without the interpreter's lock if the interpreter is not exiting, and with it otherwise.
///
/// For short work that must always happen: waiting for another thread that logs needs the lock let go.
pub(crate) fn briefly_without<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    match Inside::enter() {
        Err(_) => work(),
        Ok(inside) => {
            let result = py.detach(|| {
                let result = work();
                may_return();
                result
            });
            drop(inside);
            result
        }
    }
}

/// Announces that this thread asks for the lock next; never returns once exit has gone on without it.
fn may_return() {
    let mut state = state();
    if !state.abandoned {
        state.returning += 1;
        return;
    }
    drop(state);
    loop {
        thread::park();
    }
}

/// Runs `work` with the lock, from any thread; `None` when the interpreter is exiting.
pub(crate) fn with<T>(work: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    {
        let mut state = state();
        if state.closing {
            return None;
        }
        state.returning += 1;
    }
    let result = Python::try_attach(work);
    let mut state = state();
    state.returning = state.returning.saturating_sub(1);
    CHANGED.notify_all();
    result
}

/// Stops the calls that are running and lets no new one begin; registered with `atexit`.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    if PROCESS.get() != Some(&process::id()) {
        return;
    }
    py.detach(|| {
        let deadline = Instant::now() + PATIENCE;
        grilly::exit::begin();
        state().closing = true;
        let idle = grilly::backend::vulkan::shut_down();
        let left = deadline.saturating_duration_since(Instant::now());
        let (mut guard, late) =
            CHANGED.wait_timeout_while(state(), left, |s| s.inside > 0).unwrap_or_else(PoisonError::into_inner);
        if late.timed_out() {
            guard.abandoned = true;
            drop(CHANGED.wait_timeout_while(guard, LAST_CALL, |s| s.returning > 0));
        }
        if !idle || late.timed_out() {
            grilly::backend::vulkan::abandon();
        }
    });
}
