//! Packed formats of weights: `grilly::quant`.

use grilly::Error;
use grilly::quant::Format;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::error::PyResult;

/// The format of this name.
fn format(name: &str) -> grilly::Result<Format> {
    let known = Format::ALL.iter().find(|(_, own)| *own == name).map(|(format, _)| *format);
    let names = || Format::ALL.map(|(_, name)| name).join(", ");
    known.ok_or_else(|| Error::InvalidArgument(format!("format is {name:?}, expected one of {}", names())))
}

fn contiguous<T>(elements: Option<&[T]>) -> grilly::Result<&[T]> {
    elements.ok_or_else(|| Error::InvalidArgument("the array is not contiguous".into()))
}

/// The bytes of a matrix `[rows, columns]`, and in them the scale of a format that has one.
#[pyfunction]
#[pyo3(signature = (name, rows, columns, values, scale=None))]
pub(crate) fn pack_weights<'py>(
    py: Python<'py>,
    name: &str,
    rows: usize,
    columns: usize,
    values: PyReadonlyArray1<'py, i8>,
    scale: Option<f32>,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let format = format(name)?;
    let mut packed = format.pack(rows, columns, contiguous(values.as_slice().ok())?)?;
    if let Some(scale) = scale {
        format.set_scale(rows, columns, &mut packed, scale)?;
    }
    Ok(packed.into_pyarray(py))
}

/// The values of a packed matrix `[rows, columns]`, row after row, and the scale of a format that has one.
#[pyfunction]
pub(crate) fn unpack_weights<'py>(
    py: Python<'py>,
    name: &str,
    rows: usize,
    columns: usize,
    packed: PyReadonlyArray1<'py, u8>,
) -> PyResult<(Bound<'py, PyArray1<i8>>, Option<f32>)> {
    let (format, packed) = (format(name)?, contiguous(packed.as_slice().ok())?);
    let scale = format.scale(rows, columns, packed)?;
    Ok((format.unpack(rows, columns, packed)?.into_pyarray(py), scale))
}
