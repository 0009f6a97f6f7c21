//! The extension module `grilly._core`: conversion of arguments, results and errors, and nothing else.

use pyo3::prelude::*;

#[pymodule]
mod _core {}
