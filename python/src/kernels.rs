//! `grilly._core.Kernel`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::borrow::Cow;

use crate::array::Array;
use crate::attributes::json;
use crate::error::PyResult;
use crate::info::set_fields;
use crate::lock;
use crate::text::Name;
use grilly::Result;
use grilly::kernels::{ROWS, Shader};

/// Name, formula and options of every kernel.
#[pyfunction]
pub(crate) fn kernel_rows() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    ROWS.iter().map(|row| (row.name, row.formula, row.options.to_vec())).collect()
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
