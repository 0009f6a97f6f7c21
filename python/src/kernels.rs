//! `grilly._core.Kernel`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::borrow::Cow;

use crate::array::{Array, dtype_of};
use crate::attributes::{json, parsed};
use crate::error::PyResult;
use crate::info::set_fields;
use crate::lock;
use crate::text::{Location, Name};
use grilly::Result;
use grilly::dtype::DType;
use grilly::export::{ARCHITECTURES, Architecture, Compiled, Target};
use grilly::kernels::{ROWS, Shader};
use grilly::process::files;

/// Name, formula and options of every kernel.
#[pyfunction]
pub(crate) fn kernel_rows() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    ROWS.iter().map(|row| (row.name, row.formula, row.options.to_vec())).collect()
}

/// Name and code of each shader, and the interface as JSON.
type Parts<'py> = (Vec<(String, Bound<'py, PyBytes>)>, String);

fn parts(py: Python<'_>, compiled: Compiled) -> Parts<'_> {
    let code = compiled.code.into_iter().map(|code| (code.name, PyBytes::new(py, &code.bytes)));
    (code.collect(), compiled.interface.to_string())
}

/// The code of an op for operands of these types and shapes.
#[pyfunction]
pub(crate) fn compile_op<'py>(
    py: Python<'py>,
    op: Name,
    operands: Vec<(Name, Vec<usize>)>,
    attributes: &Bound<'_, PyDict>,
    target: Name,
    matrix_cores: bool,
) -> PyResult<Parts<'py>> {
    let op = parsed(&op.0, attributes)?.op().clone();
    let target = Target::named(&target.0)?;
    let typed = |(name, axes): (Name, Vec<usize>)| {
        // Arrays have no bfloat16.
        Ok((name.0.parse::<DType>().or_else(|_| dtype_of(&name.0))?, axes))
    };
    let operands = operands.into_iter().map(typed).collect::<Result<Vec<_>>>()?;
    let compiled = lock::without_waiting(py, move || grilly::export::compile_op(&op, &operands, target, matrix_cores))?;
    Ok(parts(py, compiled))
}

/// Name, GPUs, tuned row, and bytes of shared memory by target, of every architecture.
type Rows = Vec<(&'static str, &'static str, Option<&'static str>, Vec<(&'static str, u32)>)>;

/// The GPU architectures that kernels are compiled for.
#[pyfunction]
pub(crate) fn kernel_architectures() -> Rows {
    let bytes = |row: &Architecture| {
        Target::ALL.into_iter().filter_map(|target| Some((target.name(), row.shared_memory(target)?))).collect()
    };
    ARCHITECTURES.iter().map(|row| (row.name, row.gpus, row.row, bytes(row))).collect()
}

/// The PTX of CUDA C++.
#[pyfunction]
pub(crate) fn ptx<'py>(py: Python<'py>, cuda: Name) -> PyResult<Bound<'py, PyBytes>> {
    let code = lock::without_waiting(py, move || grilly::export::ptx(&cuda.0))?;
    Ok(PyBytes::new(py, &code))
}

/// Writes files, by their names in a folder, whole and without following links; over files of these names if `overwrite`.
#[pyfunction]
pub(crate) fn write_files(
    py: Python<'_>,
    folder: Location,
    content: Vec<(Location, Vec<u8>)>,
    overwrite: bool,
) -> PyResult<()> {
    let content: Vec<_> = content.into_iter().map(|(name, bytes)| (name.0, bytes)).collect();
    lock::without(py, || files::write(&folder.0, &content, overwrite.into()))
}

/// A kernel with its options.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct Kernel(grilly::kernels::Kernel);

#[pymethods]
impl Kernel {
    #[new]
    fn new(name: Name, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        Ok(Kernel(grilly::kernels::Kernel::get(&name.0, json(options)?)?))
    }

    /// Element type and axes of each operand for a number of rows.
    fn operands(&self, rows: usize) -> Vec<(Cow<'static, str>, Vec<usize>)> {
        self.0.operands(rows).into_iter().map(|(dtype, axes)| (dtype.name(), axes)).collect()
    }

    /// Name and role of each operand, including optional ones.
    fn signature(&self) -> Vec<(&'static str, &'static str)> {
        self.0.op().operands().iter().map(|operand| (operand.name, operand.role.name())).collect()
    }

    /// Names of the operations in its definition.
    fn definition(&self) -> PyResult<Vec<&'static str>> {
        Ok(self.0.definition()?)
    }

    /// One dict per shader, then flops and bytes, for a number of rows.
    fn describe<'py>(&self, py: Python<'py>, rows: usize) -> PyResult<(Vec<Bound<'py, PyDict>>, u64, u64)> {
        let description = self.0.describe(rows)?;
        let shaders = description.shaders.iter().map(|shader| describe(py, shader)).collect::<PyResult<_>>()?;
        Ok((shaders, description.work.flops, description.work.bytes))
    }

    /// Its code in another language, for a number of rows and a GPU architecture, on matrix cores or without.
    fn compile<'py>(
        &self,
        py: Python<'py>,
        target: Name,
        rows: usize,
        architecture: Option<Name>,
        matrix_cores: bool,
    ) -> PyResult<Parts<'py>> {
        let target = Target::named(&target.0)?;
        let kernel = self.0.clone();
        let compiled = lock::without_waiting(py, move || {
            kernel.compile_for(target, rows, architecture.as_ref().map(|name| &*name.0), matrix_cores)
        })?;
        Ok(parts(py, compiled))
    }

    /// Runs it, or with `apart` its definition step by step, on arrays of one device and returns the result.
    fn call(&self, py: Python<'_>, operands: Vec<PyRef<'_, Array>>, apart: bool) -> PyResult<Array> {
        let arrays = operands.iter().map(|array| array.array()).collect::<Result<Vec<_>>>()?;
        let run = || if apart { self.0.call_apart(&arrays) } else { self.0.call(&arrays) };
        let result = lock::without(py, run)?;
        // The kernel rejects a call without operands.
        Ok(operands[0].beside(py, result))
    }
}

fn describe<'py>(py: Python<'py>, shader: &Shader) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    set_fields!(row, shader; name, source, bindings, push_constants, constants, local_size, shared_memory);
    Ok(row)
}
