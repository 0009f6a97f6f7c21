//! Sub-interpreters, in which the module is not initialised.
#![allow(unsafe_code)]

use pyo3::exceptions::PyImportError;
use pyo3::ffi::{PyInterpreterState_Get, PyInterpreterState_GetID};
use pyo3::prelude::*;

/// Refuses sub-interpreters: `atexit` would shut the whole process's threads down at the end of one of them, and pyo3 keeps
/// classes once a process.
pub fn only_the_main_one(_attached: Python<'_>) -> PyResult<()> {
    // SAFETY: both calls need a thread that is attached to an interpreter, which the argument proves.
    match unsafe { PyInterpreterState_GetID(PyInterpreterState_Get()) } {
        0 => Ok(()),
        _ => Err(PyImportError::new_err(
            "grilly works in the main interpreter alone, not in a sub-interpreter: use a process (multiprocessing, or for \
             mod_wsgi WSGIApplicationGroup %{GLOBAL})",
        )),
    }
}
