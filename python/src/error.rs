//! One Python exception class per kind of error; the classes are in `grilly/errors.py`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyType;

use grilly::Error;

/// The result type of the module's functions: `?` accepts grilly's errors as well as Python's exceptions.
pub(crate) type PyResult<T> = Result<T, Raised>;

/// The exception to raise.
pub(crate) struct Raised(PyErr);

impl From<Raised> for PyErr {
    fn from(Raised(exception): Raised) -> Self {
        exception
    }
}

impl From<PyErr> for Raised {
    fn from(exception: PyErr) -> Self {
        Raised(exception)
    }
}

impl From<Error> for Raised {
    fn from(error: Error) -> Self {
        let exception = Python::try_attach(|py| {
            let class = py.import("grilly.errors").and_then(|errors| errors.getattr(class_name(&error)));
            match class.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
                Ok(class) => with_facts(py, PyErr::from_type(class, (error.to_string(),)), &error),
                Err(lookup) => lookup,
            }
        });
        Raised(exception.unwrap_or_else(|| PyRuntimeError::new_err(error.to_string())))
    }
}

/// Name of the class in `grilly.errors`.
fn class_name(error: &Error) -> &'static str {
    match error {
        Error::ModelNotFound { .. } => "ModelNotFoundError",
        Error::ModelFormat { .. } => "ModelFormatError",
        Error::Weights { .. } => "WeightsError",
        Error::InvalidArgument(_) => "InvalidArgumentError",
        Error::InvalidType(_) => "InvalidTypeError",
        Error::IndexOutOfRange(_) => "IndexOutOfRangeError",
        Error::Unsupported { .. } => "UnsupportedError",
        Error::DeviceUnavailable(_) => "DeviceUnavailableError",
        Error::Device { .. } => "DeviceError",
        Error::DeviceLost { .. } => "DeviceLostError",
        Error::OutOfMemory { .. } => "DeviceMemoryError",
        Error::ShaderNotFound { .. } | Error::ShaderFolder { .. } => "ShaderNotFound",
        Error::FunctionNotFound { .. } => "FunctionNotFound",
        Error::CompilationFailed { .. } => "CompilationFailed",
        Error::PipelineCreationFailed { .. } => "PipelineCreationFailed",
        Error::SharedMemory { .. } => "SharedMemoryError",
        Error::Checkpoint { .. } => "CheckpointError",
        Error::NotFinite(_) => "NotFiniteError",
        Error::Unusable(_) => "UnusableError",
        Error::Interrupted => "StoppedError",
    }
}

/// Sets the attributes documented in `grilly/errors.py`; `nearest` is a pair of blocks, which Python converts to a
/// configuration.
fn with_facts(py: Python<'_>, exception: PyErr, error: &Error) -> PyErr {
    if let Error::SharedMemory { need, limit, nearest, .. } = error {
        let value = exception.value(py);
        let facts = value.setattr("need", need).and_then(|()| value.setattr("limit", limit));
        if let Err(fault) = facts.and_then(|()| value.setattr("nearest", *nearest)) {
            return fault;
        }
    }
    exception
}
