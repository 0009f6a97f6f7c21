//! `grilly._core.Engine` and `grilly._core.Array`.

use std::collections::HashMap;
use std::sync::Arc;

use numpy::{Element, IntoPyArray, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::attributes::{chosen, parsed};
use crate::error::PyResult;
use crate::lock;
use crate::owned::Owned;
use crate::text::Name;
use grilly::array::Way;
use grilly::dtype::DType;
use grilly::ops::Op;
use grilly::process::memory;
use grilly::{Error, array};

/// The engine of a device string.
#[pyfunction]
pub(crate) fn engine(py: Python<'_>, device: Name) -> PyResult<Engine> {
    let engine = lock::without(py, || array::Engine::of(&device.0))?;
    Ok(Engine(engine))
}

/// The engines of devices of one kind: names with commas between, or "all".
#[pyfunction]
pub(crate) fn engines(py: Python<'_>, devices: Name) -> PyResult<Vec<Engine>> {
    let engines = lock::without(py, || array::Engine::each(&devices.0))?;
    Ok(engines.into_iter().map(Engine).collect())
}

/// The names of all ops.
#[pyfunction]
pub(crate) fn op_names() -> Vec<&'static str> {
    Op::NAMES.to_vec()
}

/// The ops without a derivative, and why.
#[pyfunction]
pub(crate) fn without_derivative() -> HashMap<&'static str, &'static str> {
    Op::without_derivative().into_iter().collect()
}

/// Turns on or off the marked bytes after every result on Vulkan devices, which are checked when the result is read.
#[pyfunction]
pub(crate) fn guard_bands(on: bool) {
    grilly::backend::vulkan::guard_bands(on);
}

/// A device on which arrays are stored and ops run.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct Engine(pub(crate) Arc<array::Engine>);

#[pymethods]
impl Engine {
    /// `"vulkan"` or `"cpu"`.
    #[getter]
    fn backend(&self) -> &'static str {
        self.0.kind().name()
    }

    /// The device's name.
    #[getter]
    fn device(&self) -> &str {
        self.0.device()
    }

    /// The reason why this device was chosen.
    #[getter]
    fn reason(&self) -> &str {
        self.0.reason()
    }

    /// The most bytes of an array that kernels can read, and those of the device's memory; `None` of the CPU.
    #[getter]
    fn limits(&self) -> Option<(u64, u64)> {
        self.0.capabilities().map(|facts| (facts.storage_buffer_range.min(facts.allocation), facts.memory))
    }

    /// Uploads a contiguous NumPy array of float32, float16, int32, uint32, int8 or uint8 to the device.
    fn upload(slf: &Bound<'_, Self>, array: &Bound<'_, PyUntypedArray>) -> PyResult<Array> {
        let shape = array.shape().to_vec();
        let engine = &slf.get().0;
        for (dtype, bytes_of) in TYPES {
            if let Some(bytes) = bytes_of(array)? {
                let array = lock::without(slf.py(), || engine.upload(dtype, &shape, &bytes))?;
                return Ok(Array::new(slf, array));
            }
        }
        Err(Error::InvalidType(format!("upload: {} is not one of {}", array.dtype(), names())).into())
    }

    /// Runs an op with the shaders registered for `architecture` and returns its result; its numbers mean what `numerics` names,
    /// by default the process' choice. Operands that are None, of an op that may lack them, are left out, here and below.
    #[pyo3(signature = (op, operands, attributes, architecture=None, numerics=None))]
    fn call(
        slf: &Bound<'_, Self>,
        op: &str,
        operands: Vec<Option<PyRef<'_, Array>>>,
        attributes: &Bound<'_, PyDict>,
        architecture: Option<Name>,
        numerics: Option<Name>,
    ) -> PyResult<Array> {
        Ok(Engine::call_all(slf, op, operands, attributes, architecture, numerics)?.swap_remove(0))
    }

    /// Runs an op and returns all its results; an operand that it updates is unchanged.
    #[pyo3(signature = (op, operands, attributes, architecture=None, numerics=None))]
    fn call_all(
        slf: &Bound<'_, Self>,
        op: &str,
        operands: Vec<Option<PyRef<'_, Array>>>,
        attributes: &Bound<'_, PyDict>,
        architecture: Option<Name>,
        numerics: Option<Name>,
    ) -> PyResult<Vec<Array>> {
        let op = &*parsed(op, attributes)?;
        let arrays = operands.iter().flatten().map(|a| a.array()).collect::<grilly::Result<Vec<_>>>()?;
        let engine = &slf.get().0;
        let (architecture, numerics) = (architecture.unwrap_or_default().0, chosen(numerics)?);
        let way = Way { architecture: &architecture, numerics };
        let found = lock::without(slf.py(), || engine.call_all(way, op, &arrays))?;
        Ok(found.into_iter().map(|array| Array::new(slf, array)).collect())
    }

    /// Runs the definition of a fused op step by step and returns its result.
    fn call_apart(
        slf: &Bound<'_, Self>,
        op: &str,
        operands: Vec<Option<PyRef<'_, Array>>>,
        attributes: &Bound<'_, PyDict>,
    ) -> PyResult<Array> {
        let op = &*parsed(op, attributes)?;
        let arrays = operands.iter().flatten().map(|a| a.array()).collect::<grilly::Result<Vec<_>>>()?;
        let engine = &slf.get().0;
        let array = lock::without(slf.py(), || engine.call_apart(op.op(), &arrays))?;
        Ok(Array::new(slf, array))
    }

    /// The gradients of an op's operands, given the gradient of its result.
    #[pyo3(signature = (op, operands, gradient, attributes, architecture=None))]
    fn vjp(
        slf: &Bound<'_, Self>,
        op: &str,
        operands: Vec<Option<PyRef<'_, Array>>>,
        gradient: PyRef<'_, Array>,
        attributes: &Bound<'_, PyDict>,
        architecture: Option<Name>,
    ) -> PyResult<Vec<Option<Array>>> {
        let op = &*parsed(op, attributes)?;
        let arrays = operands.iter().flatten().map(|a| a.array()).collect::<grilly::Result<Vec<_>>>()?;
        let (gradient, engine) = (gradient.array()?, &slf.get().0);
        let architecture = architecture.unwrap_or_default().0;
        let found = lock::without(slf.py(), || engine.vjp(&architecture, op.op(), &arrays, None, gradient))?;
        Ok(found.into_iter().map(|gradient| gradient.map(|array| Array::new(slf, array))).collect())
    }

    /// Waits until all recorded work is done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        lock::without(py, || self.0.synchronize())
    }

    fn __eq__(&self, other: PyRef<'_, Engine>) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn __hash__(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    fn __repr__(&self) -> String {
        format!("Engine({:?}, {:?})", self.0.kind().name(), self.0.device())
    }
}

/// [`bytes_of`] for one type.
type Bytes = fn(&Bound<'_, PyUntypedArray>) -> PyResult<Option<Vec<u8>>>;
/// The element types that NumPy has.
const TYPES: [(DType, Bytes); 6] = [
    (DType::F32, bytes_of::<f32>),
    (DType::F16, bytes_of::<half::f16>),
    (DType::I32, bytes_of::<i32>),
    (DType::U32, bytes_of::<u32>),
    (DType::I8, bytes_of::<i8>),
    (DType::U8, bytes_of::<u8>),
];

fn names() -> String {
    TYPES.map(|(dtype, ..)| dtype.name().into_owned()).join(", ")
}

/// The element type with NumPy's name.
pub(crate) fn dtype_of(name: &str) -> grilly::Result<DType> {
    let known = TYPES.iter().map(|(dtype, ..)| *dtype).find(|dtype| dtype.name() == name);
    known.ok_or_else(|| Error::InvalidArgument(format!("dtype is {name:?}, expected one of {}", names())))
}

/// The bytes of a contiguous array of `T`, copied because Python may change them; `None` for another type.
fn bytes_of<T: Element + bytemuck::Pod>(array: &Bound<'_, PyUntypedArray>) -> PyResult<Option<Vec<u8>>> {
    let Ok(typed) = array.cast::<PyArrayDyn<T>>() else { return Ok(None) };
    let borrowed = typed.readonly();
    match borrowed.as_slice() {
        Ok(elements) if array.is_c_contiguous() => {
            Ok(Some(memory::copied(bytemuck::cast_slice(elements), "a copy of an array")?))
        }
        _ => Err(Error::InvalidArgument("upload: the array is not contiguous".into()).into()),
    }
}

/// A contiguous, immutable tensor on a device.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct Array {
    array: Owned<array::Array>,
    engine: Py<Engine>,
}

impl Array {
    pub(crate) fn new(engine: &Bound<'_, Engine>, array: array::Array) -> Self {
        Array { array: array.into(), engine: engine.clone().unbind() }
    }

    /// Wraps an array of the same engine.
    pub(crate) fn beside(&self, py: Python<'_>, array: array::Array) -> Self {
        Array { array: array.into(), engine: self.engine.clone_ref(py) }
    }

    pub(crate) fn array(&self) -> grilly::Result<&array::Array> {
        self.array.get("array")
    }
}

#[pymethods]
impl Array {
    /// Axes, slowest first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        Ok(PyTuple::new(py, self.array()?.shape())?)
    }

    /// NumPy's name of the element type: `"float32"`, `"float16"`, `"int32"`.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        Ok(match self.array()?.dtype() {
            DType::F32 => intern!(py, "float32").clone(),
            DType::F16 => intern!(py, "float16").clone(),
            other => PyString::intern(py, &other.name()),
        })
    }

    /// Size of its elements in bytes.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        let array = self.array()?;
        Ok(array.dtype().bytes(array.elements()))
    }

    /// The engine that owns it.
    #[getter]
    fn engine(&self, py: Python<'_>) -> PyResult<Py<Engine>> {
        self.array()?;
        Ok(self.engine.clone_ref(py))
    }

    /// Least and largest value of a non-empty integer array; `None` for other arrays.
    #[getter]
    fn bounds(&self) -> PyResult<Option<(i64, i64)>> {
        Ok(self.array()?.bounds())
    }

    /// Returns the elements as a new NumPy array; waits for pending work that computes them.
    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = self.array()?;
        let (own, reason) = (array.dtype(), "NumPy has no such type".to_owned());
        let unknown = || Error::Unsupported { what: format!("an array of {}", own.name()), reason };
        TYPES.iter().find(|(dtype, _)| *dtype == own).ok_or_else(unknown)?;
        host(py, own, array.shape(), lock::without(py, || array.read())?)
    }

    /// The same elements in another shape; the memory is shared.
    fn reshape(&self, py: Python<'_>, shape: Vec<usize>) -> PyResult<Array> {
        Ok(Array::new(self.engine.bind(py), self.array()?.reshape(&shape)?))
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("Array({:?})", self.array()?))
    }
}

/// Type and shape are set by NumPy itself, which supports more axes than the binding; the bytes become the array's, without a copy.
fn host<'py>(py: Python<'py>, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
    let typed = bytes.into_pyarray(py).call_method1(intern!(py, "view"), (dtype.name(),))?;
    Ok(typed.call_method1(intern!(py, "reshape"), (PyTuple::new(py, shape)?,))?)
}
