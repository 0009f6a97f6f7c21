//! `grilly._core.Graph` and `grilly._core.Program`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::PyDict;

use crate::array::{Array, Engine, dtype_of};
use crate::attributes::parsed;
use crate::error::PyResult;
use crate::lock;
use crate::owned::Owned;
use crate::text::Name;
use grilly::dtype::DType;
use grilly::graph::{self, ValueId};
use grilly::model::shaders;
use grilly::ops::{Counts, Dim, Shape};
use grilly::{Error, array};

/// Operations that will run as one program; values are passed by their index.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct Graph(Mutex<graph::Graph>);

impl Graph {
    /// Another thread that has it may wait for the interpreter's lock.
    fn graph(&self, py: Python<'_>) -> MutexGuard<'_, graph::Graph> {
        self.0.lock_py_attached(py).unwrap_or_else(PoisonError::into_inner)
    }
}

fn shape_of(axes: &[Name]) -> grilly::Result<Shape> {
    Ok(Shape(axes.iter().map(|axis| axis.0.parse()).collect::<grilly::Result<_>>()?))
}

#[pymethods]
impl Graph {
    #[new]
    fn new() -> Self {
        Graph(Mutex::default())
    }

    /// Adds a tensor that is passed to each run, or that persists between runs. Axes are sizes, or what the batch
    /// counts: `"T"`, `"B"`, `"B+1"`.
    fn declare(&self, py: Python<'_>, name: Name, axes: Vec<Name>, dtype: Name, persists: bool) -> PyResult<usize> {
        let add = if persists { graph::Graph::state } else { graph::Graph::input };
        Ok(add(&mut self.graph(py), &name.0, shape_of(&axes)?, dtype_of(&dtype.0)?).0)
    }

    /// Adds a float32 constant.
    fn filled(&self, py: Python<'_>, number: f32, axes: Vec<Name>) -> PyResult<usize> {
        Ok(self.graph(py).filled(number, shape_of(&axes)?).0)
    }

    /// Adds an op and returns its results.
    fn apply(
        &self,
        name: Name,
        op: Name,
        operands: Vec<usize>,
        attributes: &Bound<'_, PyDict>,
    ) -> PyResult<Vec<usize>> {
        let op = parsed(&op.0, attributes)?.op().clone();
        op.check_number(operands.len())?;
        let (operands, mut graph) =
            (operands.into_iter().map(ValueId).collect::<Vec<_>>(), self.graph(attributes.py()));
        let types: Vec<DType> = operands.iter().map(|id| graph.value(*id).dtype).collect();
        // Nothing casts them here.
        let narrow = |(place, dtype): &(usize, &DType)| dtype.is_float() && op.operand(*place).narrow;
        let stored = types.iter().enumerate().find(narrow).map_or(DType::F32, |(_, dtype)| *dtype);
        op.check_types(&types, stored)?;
        Ok(graph.apply(&name.0, op, &operands)?.into_iter().map(|id| id.0).collect())
    }

    /// Adds the gradients of `result` with respect to `operands`.
    fn gradients(&self, py: Python<'_>, result: usize, gradient: usize, operands: Vec<usize>) -> PyResult<Vec<usize>> {
        shaders::read().numerics.check_trains("gradients")?;
        let operands: Vec<ValueId> = operands.into_iter().map(ValueId).collect();
        let mut graph = self.graph(py);
        // Where a signal ends it, the graph is as before.
        let mut own = graph.clone();
        let (own, found) = lock::without_waiting(py, move || {
            let found = own.gradients(ValueId(result), ValueId(gradient), &operands)?;
            Ok((own, found))
        })?;
        *graph = own;
        Ok(found.into_iter().map(|id| id.0).collect())
    }

    /// Name, axes and type of a value.
    fn value(&self, py: Python<'_>, value: usize) -> (String, Vec<String>, String) {
        let graph = self.graph(py);
        let value = graph.value(ValueId(value));
        let axes = value.shape.0.iter().map(Dim::to_string).collect();
        (value.name.clone(), axes, value.dtype.name().into_owned())
    }

    /// Prepares the operations so far; `counts` are the largest sizes of axes that a batch counts.
    fn program(
        &self,
        engine: &Bound<'_, Engine>,
        outputs: Vec<usize>,
        states: Vec<PyRef<'_, Array>>,
        counts: BTreeMap<Name, usize>,
    ) -> PyResult<Program> {
        let mut graph = self.graph(engine.py()).clone();
        graph.outputs = outputs.into_iter().map(ValueId).collect();
        let states = states.iter().map(|state| state.array().cloned()).collect::<grilly::Result<Vec<_>>>()?;
        let (counts, own) = (counted(&counts)?, engine.get().0.clone());
        let program = lock::without_waiting(engine.py(), move || {
            array::Program::new(&own, graph, counts, &states.iter().collect::<Vec<_>>())
        })?;
        Ok(Program { program: program.into(), engine: engine.clone().unbind() })
    }
}

fn counted(sizes: &BTreeMap<Name, usize>) -> grilly::Result<Counts> {
    let mut counts = Counts::default();
    for (axis, size) in sizes {
        match axis.0.parse()? {
            dim @ (Dim::Tokens | Dim::Texts | Dim::Counted(_)) => counts.set(dim, *size),
            _ => return Err(Error::InvalidArgument(format!("counts has {:?}, expected T, B, or R0 to R5", axis.0))),
        }
    }
    Ok(counts)
}

/// A graph prepared on a device, with its states.
#[pyclass(frozen, module = "grilly._core")]
pub(crate) struct Program {
    program: Owned<array::Program>,
    engine: Py<Engine>,
}

#[pymethods]
impl Program {
    /// Runs the graph once and returns its outputs.
    fn run(&self, py: Python<'_>, inputs: Vec<PyRef<'_, Array>>) -> PyResult<Vec<Array>> {
        let program = self.program.get("program")?;
        let inputs = inputs.iter().map(|input| input.array()).collect::<grilly::Result<Vec<_>>>()?;
        let outputs = lock::without(py, || program.run(&inputs))?;
        Ok(outputs.into_iter().map(|output| Array::new(self.engine.bind(py), output)).collect())
    }

    /// A current state, by its place in the order in which they were added.
    fn state(&self, py: Python<'_>, place: usize) -> PyResult<Array> {
        let program = self.program.get("program")?;
        // A run in another thread may wait for the interpreter's lock.
        Ok(Array::new(self.engine.bind(py), lock::without(py, || program.state(place))?))
    }
}
