//! What a model computes, as Python takes it, and reports of how far it is.

use std::collections::HashMap;

use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::error::PyResult;
use crate::lock;
use grilly::embed::{self, IntegerProduct};

pub(crate) type Matrix = Py<PyArray2<f32>>;
pub(crate) type Product = (String, Option<String>, bool, HashMap<&'static str, Matrix>);
/// Token ids of each text.
pub(crate) type Ids = Vec<Vec<u32>>;

/// What a model computed of texts or pairs, in their order.
#[pyclass(frozen, get_all, module = "grilly._core")]
pub(crate) struct Encoded {
    /// One row each `[N, D]`.
    texts: Matrix,
    /// The token vectors of each `[T, H]`; empty unless asked for.
    tokens: Vec<Matrix>,
    /// The token ids of each; likewise.
    ids: Ids,
    /// Which token vectors of each are scored `[T]`; empty unless they are the model's result.
    scored: Vec<Py<PyArray1<bool>>>,
}

/// What Python calls with the number of texts done.
pub(crate) type Callback = Option<Py<PyAny>>;
/// The same for the core.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(usize) -> grilly::Result<()>;

/// Runs work without the interpreter's lock, but for the calls of `progress`, whose exceptions stop it.
pub(crate) fn reporting<T: Send>(
    py: Python<'_>,
    progress: Callback,
    work: impl FnOnce(Progress<'_>) -> grilly::Result<T> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let result = lock::without(py, || {
        work(&mut |done| {
            grilly::exit::check()?;
            let Some(progress) = &progress else { return Ok(()) };
            lock::raising(&mut raised, |py| progress.call1(py, (done,)).map(drop))
        })
    });
    raised.map_or(result, |exception| Err(exception.into()))
}

impl Encoded {
    pub(crate) fn new(py: Python<'_>, found: embed::Encoded) -> Self {
        let embed::Encoded { texts, tokens, ids, scored } = found;
        let scored = scored.into_iter().map(|scored| scored.into_pyarray(py).unbind()).collect();
        Encoded { texts: texts.into_pyarray(py).unbind(), tokens: matrices(py, tokens), ids, scored }
    }
}

pub(crate) fn matrices(py: Python<'_>, rows: Vec<Array2<f32>>) -> Vec<Matrix> {
    rows.into_iter().map(|rows| rows.into_pyarray(py).unbind()).collect()
}

/// A product of integers as Python takes it.
pub(crate) fn product(py: Python<'_>, product: IntegerProduct) -> Product {
    let row = |numbers: Vec<f32>| Array2::from_shape_vec((1, numbers.len()), numbers).expect("one row");
    let arrays = [("x", product.x), ("matrix", product.matrix), ("y", product.y)];
    let rows = [("factors", row(product.factors)), ("bias", row(product.bias))];
    let rows = rows.into_iter().filter(|(_, numbers)| !numbers.is_empty());
    let residual = product.residual.map(|residual| ("residual", residual));
    let arrays = arrays.into_iter().chain(rows).chain(residual);
    let arrays = arrays.map(|(name, array)| (name, array.into_pyarray(py).unbind())).collect();
    (product.name, product.op.activation.map(|kind| format!("{kind:?}")), product.op.pairs, arrays)
}
