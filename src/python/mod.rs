//! The extension module `grilly._core`: conversion of arguments, results and errors, and nothing else.

mod array;
#[cfg(feature = "vulkan")]
mod compiler;
mod embed;
mod error;
mod info;
mod lock;
mod log_bridge;
mod text;

use pyo3::prelude::*;

/// The compiled part of grilly; use the package `grilly`, not this module.
#[pymodule]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::array::{Array, Engine, engine, guard_bands, op_names};
    #[cfg(feature = "vulkan")]
    #[pymodule_export]
    use super::compiler::{ComputeFunction, ShaderCompiler, ShaderTable, configure};
    #[pymodule_export]
    use super::embed::EmbeddingModel;
    #[pymodule_export]
    use super::info::{
        clear_faults, dispatch_times, host, inject_fault, inventory, profile, reset_stats, settings, stats,
        validation_messages,
    };
    #[pymodule_export]
    use super::lock::shut_down;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        super::lock::remember_process();
        super::log_bridge::install(py)?;
        py.import("atexit")?.call_method1("register", (module.getattr("shut_down")?,))?;
        Ok(())
    }
}
