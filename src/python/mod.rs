//! The extension module `grilly._core`: conversion of arguments, results and errors, and nothing else.

mod array;
#[cfg(feature = "vulkan")]
mod compiler;
mod embed;
mod error;
#[cfg(feature = "vulkan")]
mod flash;
mod info;
#[cfg(feature = "vulkan")]
mod kernels;
mod lock;
mod log_bridge;
mod text;

use pyo3::prelude::*;

/// The compiled part of grilly; use the package `grilly`, not this module.
#[pymodule]
mod _core {
    use pyo3::prelude::*;
    use pyo3::types::IntoPyDict;

    #[pymodule_export]
    use super::array::{Array, Engine, engine, guard_bands, op_names};
    #[cfg(feature = "vulkan")]
    #[pymodule_export]
    use super::compiler::{ComputeFunction, ShaderCompiler, ShaderTable, configure};
    #[pymodule_export]
    use super::embed::{EmbeddingModel, architectures};
    #[cfg(feature = "vulkan")]
    #[pymodule_export]
    use super::flash::{flash_rows, flash_select, flash_shared_memory, flash_validate};
    #[pymodule_export]
    use super::info::{
        clear_faults, dispatch_times, host, inject_fault, inventory, profile, reset_stats, settings, stats,
        validation_messages,
    };
    #[cfg(feature = "vulkan")]
    #[pymodule_export]
    use super::kernels::{Kernel, kernel_rows};
    #[pymodule_export]
    use super::lock::{remember_process, shut_down};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        super::lock::remember_process();
        // The first of all such calls that know of this module: functions run in the order in which they are registered.
        let again = [("after_in_child", module.getattr("remember_process")?)].into_py_dict(py)?;
        py.import("os")?.call_method("register_at_fork", (), Some(&again))?;
        super::log_bridge::install(py)?;
        py.import("atexit")?.call_method1("register", (module.getattr("shut_down")?,))?;
        Ok(())
    }
}
