//! The extension module `grilly._core`: only conversion of arguments, results and errors.
#![deny(clippy::disallowed_methods, clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod array;
mod attributes;
mod compiler;
mod embed;
mod error;
mod files;
mod flash;
mod info;
mod interpreter;
mod kernels;
mod lock;
mod log_bridge;
mod outputs;
mod owned;
mod program;
mod quant;
mod shaders;
mod text;
mod tokenizer;
mod train;

use pyo3::prelude::*;

/// The compiled part of grilly; use the package `grilly`, not this module.
#[pymodule]
mod _core {
    use pyo3::prelude::*;
    use pyo3::types::IntoPyDict;

    #[pymodule_export]
    use crate::array::{Array, Engine, engine, engines, guard_bands, op_names, without_derivative};
    #[pymodule_export]
    use crate::compiler::{Block, ComputeFunction, ShaderCompiler, shader_files};
    #[pymodule_export]
    use crate::embed::EmbeddingModel;
    #[pymodule_export]
    use crate::files::{cut_passages, file_states, paragraphs, read_files, read_text, walk_files};
    #[pymodule_export]
    use crate::flash::{flash_rows, flash_select, flash_shared_memory, flash_validate};
    #[pymodule_export]
    use crate::info::{
        built_variants, check_arguments, check_trains, clear_faults, dispatch_times, dispatched, everywhere_rows,
        head_rows, info, inject_fault, model_rows, module_rows, need_memory, numerics_name, profile, reset_stats,
        settings, stats, stored_tensor, validation_messages,
    };
    #[pymodule_export]
    use crate::kernels::{Kernel, compile_op, kernel_architectures, kernel_rows, ptx, write_files};
    #[pymodule_export]
    use crate::lock::{remember_process, shut_down};
    #[pymodule_export]
    use crate::outputs::Encoded;
    #[pymodule_export]
    use crate::program::{Graph, Program};
    #[pymodule_export]
    use crate::quant::{pack_weights, unpack_weights};
    #[pymodule_export]
    use crate::shaders::{ShaderTable, configure};
    #[pymodule_export]
    use crate::tokenizer::{Encodings, Tokenizer, pieces};
    #[pymodule_export]
    use crate::train::{Trainer, metrics, parameter_count, transformer_config};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        crate::interpreter::only_the_main_one(py)?;
        // Looks up NumPy's C functions, which panics where Ctrl-C interrupts it: later, in the first call that takes an array.
        numpy::dtype::<f32>(py);
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("TRANSFORMER_SETTINGS", grilly::model::config::SETTINGS_FILES)?;
        // pyo3's list of the names, which _core.pyi would have to repeat.
        module.delattr("__all__")?;
        crate::lock::remember_process();
        // Registered before all other such callbacks of this module, since they run in the order of registration.
        let again = [("after_in_child", module.getattr("remember_process")?)].into_py_dict(py)?;
        py.import("os")?.call_method("register_at_fork", (), Some(&again))?;
        crate::log_bridge::install(py)?;
        py.import("atexit")?.call_method1("register", (module.getattr("shut_down")?,))?;
        Ok(())
    }
}
