//! `grilly._core.ShaderCompiler` and its compiled functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::array::Array;
use crate::error::PyResult;
use crate::lock;
use crate::text::{Location, Name};
use grilly::Error;
use grilly::array::Dispatch;
use grilly::compiler::{self, CompileOptions, Defines, ShaderCompilerConfig};

/// Compiles the shaders of a folder. A compilation may take any time and cannot be stopped: see `without_waiting`.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct ShaderCompiler(pub Arc<compiler::ShaderCompiler>);

#[pymethods]
impl ShaderCompiler {
    #[new]
    #[allow(clippy::too_many_arguments)] // the fields of Python's dataclass
    fn new(
        shader_directory: Location,
        enable_caching: bool,
        cache_directory: Option<Location>,
        debug_info: Option<bool>,
        optimization_level: Option<Name>,
        target_env: Option<Name>,
        fast_math: bool,
        defines: BTreeMap<Name, Name>,
        fallback_directories: Vec<Location>,
    ) -> PyResult<Self> {
        let mode = ShaderCompilerConfig::default();
        for (Name(name), Name(value)) in &defines {
            let fine = |text: &str| !text.contains('\0');
            if !fine(name) || !fine(value) || name.is_empty() {
                return Err(Error::InvalidArgument(format!("defines: {name:?} is not the name of a macro")).into());
            }
        }
        let compile_options = CompileOptions {
            target_env: target_env.map_or(Ok(mode.compile_options.target_env), |name| name.0.parse())?,
            fast_math,
            defines: Defines(defines.into_iter().map(|(name, value)| (name.0, value.0)).collect()),
            fallback_directories: fallback_directories.into_iter().map(|folder| folder.0).collect(),
        };
        Ok(ShaderCompiler(Arc::new(compiler::ShaderCompiler::new(ShaderCompilerConfig {
            shader_directory: shader_directory.0,
            enable_caching,
            cache_directory: cache_directory.map(|folder| folder.0),
            debug_info: debug_info.unwrap_or(mode.debug_info),
            optimization_level: optimization_level.map_or(Ok(mode.optimization_level), |name| name.0.parse())?,
            compile_options,
        }))))
    }

    /// Number of compilations of GLSL, excluding cache hits.
    #[getter]
    fn compilations(&self) -> u64 {
        self.0.compilations()
    }

    /// Names of the shaders in the folder.
    fn shaders(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        lock::without(py, || self.0.shaders())
    }

    /// Names of the functions of a shader.
    fn functions(&self, py: Python<'_>, shader: Name) -> PyResult<Vec<String>> {
        lock::without(py, || self.0.functions(&shader.0))
    }

    /// Compiles every function of these shaders.
    fn compile_all(&self, py: Python<'_>, shaders: Vec<Name>) -> PyResult<Vec<ComputeFunction>> {
        let compiler = self.0.clone();
        let shaders: Vec<String> = shaders.into_iter().map(|shader| shader.0).collect();
        let all = lock::without_waiting(py, move || compiler.compile_shaders(&shaders))?;
        Ok(all.into_iter().map(ComputeFunction).collect())
    }

    /// Compiles one function of a shader.
    fn compile(&self, py: Python<'_>, shader: Name, function: Name) -> PyResult<ComputeFunction> {
        let compiler = self.0.clone();
        let compiled = lock::without_waiting(py, move || compiler.get_compute_function(&shader.0, &function.0));
        compiled.map(ComputeFunction)
    }
}

/// A compiled function of a shader file.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct ComputeFunction(compiler::ComputeFunction);

#[pymethods]
impl ComputeFunction {
    /// The file's name without its extension.
    #[getter]
    fn shader(&self) -> &str {
        &self.0.shader
    }

    /// The function's name.
    #[getter]
    fn function(&self) -> &str {
        &self.0.function
    }

    /// The module, little endian.
    #[getter]
    fn spirv<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes: Vec<u8> = self.0.variant.spirv.iter().flat_map(|word| word.to_le_bytes()).collect();
        PyBytes::new(py, &bytes)
    }

    /// Index, name and access ("readonly", "writeonly", "readwrite") of each storage buffer.
    #[getter]
    fn bindings(&self) -> Vec<(u32, &'static str, &'static str)> {
        self.0.variant.bindings.iter().map(|b| (b.index, b.name, b.access.name())).collect()
    }

    /// Name and type of each member of the push-constant block, 4 bytes each.
    #[getter]
    fn push_constants(&self) -> Vec<(&'static str, &'static str)> {
        self.0.variant.push.iter().map(|m| (m.name, m.scalar.glsl())).collect()
    }

    /// `constant_id`, name and type of each specialization constant.
    #[getter]
    fn constants(&self) -> Vec<(u32, &'static str, &'static str)> {
        self.0.variant.constants.iter().map(|c| (c.id, c.name, c.scalar.glsl())).collect()
    }

    /// Invocations per workgroup along x, y and z.
    #[getter]
    fn local_size(&self) -> (u32, u32, u32) {
        self.0.variant.local_size.into()
    }

    /// Bytes of shared memory per workgroup.
    #[getter]
    fn shared_bytes(&self) -> u32 {
        self.0.variant.shared_bytes
    }

    /// Names of the required device features.
    #[getter]
    fn needs(&self) -> Vec<&'static str> {
        self.0.variant.needs.iter().map(|feature| feature.name()).collect()
    }

    /// Dispatches it on arrays of one device; returns, by name, the arrays not declared `readonly`, with their new
    /// contents.
    fn dispatch(
        &self,
        py: Python<'_>,
        groups: [u32; 3],
        buffers: BTreeMap<Name, PyRef<'_, Array>>,
        push: BTreeMap<Name, f64>,
        constants: BTreeMap<Name, f64>,
    ) -> PyResult<Vec<(&'static str, Array)>> {
        let Some(first) = buffers.values().next() else {
            return Err(Error::InvalidArgument(format!("{}: no buffers are given", self.0.shader)).into());
        };
        let engine = first.array()?.engine().clone();
        let given = |(name, array): (&Name, &PyRef<'_, Array>)| Ok((name.0.clone(), array.array()?.clone()));
        let numbers =
            |numbers: BTreeMap<Name, f64>| numbers.into_iter().map(|(name, number)| (name.0, number)).collect();
        let dispatch = Dispatch {
            function: &self.0,
            groups,
            buffers: buffers.iter().map(given).collect::<grilly::Result<_>>()?,
            push: numbers(push),
            constants: numbers(constants),
        };
        let written = lock::without(py, || engine.dispatch(dispatch))?;
        Ok(written.into_iter().map(|(name, array)| (name, first.beside(py, array))).collect())
    }

    /// Refuses every name, with the error of the package's other classes.
    fn __setattr__(slf: &Bound<'_, Self>, name: &str, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        let refusal = slf.py().import("grilly.closed")?.call_method1("refusal", (slf, name))?;
        Err(PyErr::from_value(refusal).into())
    }

    fn __repr__(&self) -> String {
        format!("ComputeFunction({:?}, {:?})", self.0.shader, self.0.function)
    }
}

/// Name and text of each file that a shader of yours may include, with those that these include.
#[pyfunction]
pub(crate) fn shader_files() -> Vec<(&'static str, &'static str)> {
    grilly::compiler::files().collect()
}
