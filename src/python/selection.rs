//! `grilly._core.top_k`.

use numpy::{Element, IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;
use rayon::prelude::*;

use super::lock;
use crate::Error;
use crate::selection::{Number, largest};

/// A matrix of either floating-point type.
#[derive(FromPyObject)]
pub(super) enum Matrix<'py> {
    Single(PyReadonlyArray2<'py, f32>),
    Double(PyReadonlyArray2<'py, f64>),
}

/// The `count` largest of each row and their columns, the largest first if `sorted`; equal ones as `torch.topk` takes them.
#[pyfunction]
#[pyo3(signature = (scores, count, sorted=true))]
pub(super) fn top_k<'py>(
    py: Python<'py>,
    scores: Matrix<'py>,
    count: usize,
    sorted: bool,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray2<i64>>)> {
    match scores {
        Matrix::Single(scores) => select(py, &scores, count, sorted),
        Matrix::Double(scores) => select(py, &scores, count, sorted),
    }
}

fn select<'py, T: Number + Element>(
    py: Python<'py>,
    scores: &PyReadonlyArray2<'py, T>,
    count: usize,
    sorted: bool,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray2<i64>>)> {
    let scores = scores.as_array();
    let (rows, columns) = scores.dim();
    if count > columns {
        return Err(Error::InvalidArgument(format!("count is {count}, expected at most the {columns} columns")).into());
    }
    let chosen: Vec<Vec<(T, usize)>> = lock::without(py, || {
        let of_row = |row: usize| largest(&scores.row(row).to_vec(), count, sorted);
        Ok((0..rows).into_par_iter().map(of_row).collect())
    })?;
    let chosen = chosen.concat();
    let values: Vec<T> = chosen.iter().map(|(value, _)| *value).collect();
    let places: Vec<i64> = chosen.iter().map(|(_, place)| *place as i64).collect();
    let values: Bound<'_, PyArray1<T>> = values.into_pyarray(py);
    Ok((values.reshape([rows, count])?.into_any(), places.into_pyarray(py).reshape([rows, count])?))
}
