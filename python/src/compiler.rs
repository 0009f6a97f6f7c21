//! `grilly._core.ShaderCompiler` and its compiled functions.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::array::Array;
use crate::error::PyResult;
use crate::lock;
use crate::text::{Location, Name};
use grilly::Error;
use grilly::array::{Content, Dispatch};
use grilly::compiler::{self, BufferName, CompileOptions, Defines, Place, ShaderCompilerConfig};

fn numbers(numbers: BTreeMap<Name, f64>) -> Vec<(String, f64)> {
    numbers.into_iter().map(|(name, number)| (name.0, number)).collect()
}

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

/// A buffer: its name, its binding in set 0, or its set and binding.
#[derive(FromPyObject)]
enum Key {
    Name(Name),
    Binding(u32),
    Place((u32, u32)),
}

impl From<Key> for BufferName {
    fn from(key: Key) -> Self {
        match key {
            Key::Name(name) => name.0.into(),
            Key::Binding(binding) => binding.into(),
            Key::Place((set, binding)) => Place { set, binding }.into(),
        }
    }
}

/// The layout of a buffer of a function.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct Block(compiler::Block);

#[pymethods]
impl Block {
    /// Name, kind of number, first byte, and size and bytes from one element to the next of each axis, of each member. The
    /// size is None for the array at the end, whose size is that of the buffer.
    #[getter]
    #[allow(clippy::type_complexity)] // a row
    fn members(&self) -> Vec<(&str, String, u64, Vec<(Option<u64>, u64)>)> {
        let mut rows = Vec::with_capacity(self.0.members.len());
        for member in &self.0.members {
            let axes = member.axes.iter().map(|axis| (axis.size, axis.stride)).collect();
            rows.push((member.name.as_str(), member.number.name(), member.offset, axes));
        }
        rows
    }

    /// Bytes before the array at the end, or of all members, and those of an element of that array; None if there is none.
    #[getter]
    fn size(&self) -> (u64, Option<u64>) {
        (self.0.bytes, self.0.stride)
    }

    /// The memory of the block, of the bytes of each member's elements.
    fn pack<'py>(&self, py: Python<'py>, members: BTreeMap<Name, PyBackedBytes>) -> PyResult<Bound<'py, PyBytes>> {
        let members: Vec<(&str, &[u8])> = members.iter().map(|(name, bytes)| (&*name.0, &**bytes)).collect();
        Ok(PyBytes::new(py, &self.0.pack(&members)?))
    }

    /// The bytes of the elements of one member in the memory of the block.
    fn unpack<'py>(&self, py: Python<'py>, memory: &[u8], name: Name) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.0.unpack(memory, &name.0)?))
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.0.members.iter().map(|member| member.name.as_str()).collect();
        format!("Block({names:?})")
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

    /// Binding, name and access ("readonly", "writeonly", "readwrite") of each buffer; a uniform block is a read-only one.
    #[getter]
    fn bindings(&self) -> Vec<(u32, &str, &'static str)> {
        self.0.buffers().map(|(place, name, access)| (place.binding, name, access)).collect()
    }

    /// Descriptor set of each buffer, in the order of `bindings`.
    #[getter]
    fn sets(&self) -> Vec<u32> {
        self.0.buffers().map(|(place, ..)| place.set).collect()
    }

    /// The layout of a buffer with these specialization constants; omitted ones have their defaults.
    #[pyo3(signature = (buffer, constants=None))]
    fn block(&self, buffer: Key, constants: Option<BTreeMap<Name, f64>>) -> PyResult<Block> {
        Ok(Block(self.0.block(&buffer.into(), &numbers(constants.unwrap_or_default()))?))
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

    /// Dispatches it on arrays of one device, each with its buffer and whether it is the memory of that buffer's block;
    /// returns those not declared `readonly`, with their places among `buffers` and their new contents.
    fn dispatch(
        &self,
        py: Python<'_>,
        groups: [u32; 3],
        buffers: Vec<(Key, PyRef<'_, Array>, bool)>,
        push: BTreeMap<Name, f64>,
        constants: BTreeMap<Name, f64>,
    ) -> PyResult<Vec<(usize, Array)>> {
        let mut given: Vec<(BufferName, Content)> = Vec::with_capacity(buffers.len());
        let mut first = None;
        for (key, array, block) in buffers {
            let content = array.array()?.clone();
            given.push((key.into(), if block { Content::Block(content) } else { content.into() }));
            first = first.or(Some(array));
        }
        let Some(first) = first else {
            return Err(Error::InvalidArgument(format!("{}: no buffers are given", self.0.shader)).into());
        };
        let engine = first.array()?.engine().clone();
        let names: Vec<BufferName> = given.iter().map(|(name, _)| name.clone()).collect();
        let (push, constants) = (numbers(push), numbers(constants));
        let dispatch = Dispatch { function: &self.0, groups, buffers: given, push, constants };
        let written = lock::without(py, || engine.dispatch(dispatch))?;
        let place = |name: &BufferName| names.iter().position(|given| given == name).unwrap_or(0);
        Ok(written.into_iter().map(|(name, array)| (place(&name), first.beside(py, array))).collect())
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
