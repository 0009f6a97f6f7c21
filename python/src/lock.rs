//! Releasing and reacquiring the interpreter's lock, safely while the interpreter is exiting.
//!
//! A thread that requests the lock of a finalising interpreter is terminated in the middle of Rust code, which aborts
//! the process. Therefore every call that releases the lock is counted until it has reacquired it; at exit
//! [`shut_down`] waits for those calls, and threads that exceed its time limit are parked forever.

use std::cell::RefCell;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::error::PyResult;
use grilly::Error;
use grilly::backend::cpu::Standard;

/// Time that exit waits for running calls to stop.
const PATIENCE: Duration = Duration::from_millis(1200);
/// Time that exit then waits for threads that are already requesting the lock.
const LAST_CALL: Duration = Duration::from_millis(200);

struct State {
    /// The interpreter is exiting: no new call may begin.
    closing: bool,
    /// Exit has proceeded: no thread may request the lock any more.
    abandoned: bool,
    /// Calls that have released the lock and not yet reacquired it.
    inside: usize,
    /// Threads that work for calls, also for those that have stopped waiting.
    aside: usize,
    /// Threads, of those calls or others, that are now requesting the lock.
    returning: usize,
}

/// Without calls.
const IDLE: State = State { closing: false, abandoned: false, inside: 0, aside: 0, returning: 0 };

static STATE: Mutex<State> = Mutex::new(IDLE);
static CHANGED: Condvar = Condvar::new();
/// The process of the calls that are counted; 0 before the import.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records the id of the process that imported the module, or that of a fork, which has none of its parent's calls.
#[pyfunction]
pub(crate) fn remember_process() {
    // A thread of the parent that held the mutex at the fork never returns it: such a fork ends as it ends.
    if let Ok(mut state) = STATE.try_lock()
        && PROCESS.swap(process::id(), SeqCst) != process::id()
    {
        *state = IDLE;
    }
    grilly::process::remember();
}

/// Counts a running call until dropped, which happens with the lock held again.
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
        // Only exit waits on the condition variable.
        if state.closing {
            CHANGED.notify_all();
        }
    }
}

thread_local! {
    /// What a signal handler raised while a call of this thread asked for signals.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whether a signal handler raises, or the interpreter is exiting.
fn signalled() -> bool {
    let mut raised = None;
    let stop = raising(&mut raised, |py| py.check_signals()).is_err();
    if raised.is_some() {
        RAISED.set(raised);
    }
    stop
}

/// Runs `work` without the interpreter's lock. It stops between two of its steps when a signal handler raises.
///
/// # Errors
/// `StoppedError` once the interpreter is exiting, what `work` returns, and the exception of the handler.
pub(crate) fn without<T: Send>(py: Python<'_>, work: impl FnOnce() -> grilly::Result<T> + Send) -> PyResult<T> {
    let result = released(py, Inside::enter()?, || grilly::exit::stoppable(signalled, work));
    match RAISED.take() {
        Some(exception) => Err(exception.into()),
        None => Ok(result?),
    }
}

/// Counts a thread that works for a call until dropped.
struct Aside;

impl Aside {
    fn enter() -> Self {
        state().aside += 1;
        Aside
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let mut state = state();
        state.aside = state.aside.saturating_sub(1);
        if state.closing {
            CHANGED.notify_all();
        }
    }
}

/// Runs `work` without the lock, as the call that is counted by `inside`, and rounds as [`Standard`] says.
fn released<T: Send>(py: Python<'_>, inside: Inside, work: impl FnOnce() -> T + Send) -> T {
    let result = py.detach(|| {
        let standard = Standard::enter();
        let result = work();
        drop(standard);
        may_return();
        result
    });
    drop(inside);
    result
}

/// [`without`] for work that may take long without such steps: it runs in its own thread, which is abandoned when a signal
/// handler raises. Exit waits for it as for a call.
///
/// # Errors
/// As [`without`].
pub(crate) fn without_waiting<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> grilly::Result<T> + Send + 'static,
) -> PyResult<T> {
    without(py, || {
        let aside = Aside::enter();
        grilly::exit::abandonable(move || {
            let _until_its_end = aside;
            work()
        })?
    })
}

/// Runs `work` without the interpreter's lock if the interpreter is not exiting, and with it otherwise.
///
/// For short work that must always be done: waiting for another thread that logs requires releasing the lock.
pub(crate) fn briefly_without<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    match Inside::enter() {
        Err(_) => work(),
        Ok(inside) => released(py, inside, work),
    }
}

/// Announces that this thread will request the lock next; never returns once exit has proceeded without it.
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

/// Runs `work` with the lock held, from any thread; `None` when the interpreter is exiting.
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

/// [`with`] for work that may raise: the exception is kept in `raised`, for the caller to raise once it holds the lock.
///
/// # Errors
/// `StoppedError` after an exception, and when the interpreter is exiting.
pub(crate) fn raising(
    raised: &mut Option<PyErr>,
    work: impl FnOnce(Python<'_>) -> pyo3::PyResult<()>,
) -> grilly::Result<()> {
    with(work).ok_or(Error::Interrupted)?.map_err(|exception| {
        *raised = Some(exception);
        Error::Interrupted
    })
}

/// Stops the running calls and prevents new ones; registered with `atexit`.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    if PROCESS.load(SeqCst) != process::id() {
        return;
    }
    py.detach(|| {
        let deadline = Instant::now() + PATIENCE;
        grilly::exit::begin();
        state().closing = true;
        let idle = grilly::backend::vulkan::shut_down();
        let left = deadline.saturating_duration_since(Instant::now());
        let (mut guard, late) = CHANGED
            .wait_timeout_while(state(), left, |s| s.inside + s.aside > 0)
            .unwrap_or_else(PoisonError::into_inner);
        if late.timed_out() {
            guard.abandoned = true;
            drop(CHANGED.wait_timeout_while(guard, LAST_CALL, |s| s.returning > 0));
        }
        if !idle || late.timed_out() {
            grilly::backend::vulkan::abandon();
        }
    });
}
