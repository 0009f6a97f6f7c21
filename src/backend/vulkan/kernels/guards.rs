//! On a device: no kernel writes past its last row. The result's buffer is filled with a marker value, then the op runs
//! on fewer rows than the buffer has.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::super::device::open_device;
use super::super::kernel::Dispatch;
use super::super::program::prepare_dispatches;
use super::lower;
use crate::backend::{Feed, ProgramOptions};
use crate::dtype::DType;
use crate::graph::{Graph, Plan, ValueId};
use crate::ops::signature::Role;
use crate::ops::{Activation, ActivationKind, Counts, Dim, Example, Op, Shape};
use crate::settings::Settings;
use crate::tensor::{TensorView, WeightSource};

const MARK: f32 = 777.0;
/// Rows past the last.
const GUARD: usize = 9;

/// A weight source that returns ones.
struct Ones(HashMap<String, (Vec<usize>, Vec<u8>)>);

impl WeightSource for Ones {
    fn tensor(&self, name: &str) -> crate::Result<TensorView<'_>> {
        let (shape, bytes) = &self.0[name];
        Ok(TensorView::new(DType::F32, DType::F32, shape, bytes))
    }
}

/// An op, and the number of columns of its result.
struct Guarded {
    op: Op,
    columns: usize,
    /// Columns of the operands that are inputs of the batch; none of indices.
    given: Vec<Option<usize>>,
    /// Axes of the weights, which follow the inputs.
    weights: Vec<Vec<usize>>,
}

/// An example with larger axes, if its operands are rows of a batch, or indices, and then weights.
fn guarded((op, (_, operands, _)): &(Op, &Example), larger: fn(usize) -> usize) -> Option<Guarded> {
    let (_, rows) = operands.first()?.split_last()?;
    let (mut given, mut weights, mut shapes) = (Vec::new(), Vec::new(), Vec::new());
    for (place, axes) in operands.iter().enumerate() {
        let columns = axes.last().map(|n| larger(*n));
        match op.operand(place).role {
            Role::Rows if weights.is_empty() && axes.starts_with(rows) && axes.len() == rows.len() + 1 => {
                given.push(columns);
                shapes.push(Shape::matrix(Dim::Tokens, columns?));
            }
            Role::Index { .. } if place == 0 => {
                given.push(None);
                shapes.push(Shape::vector(Dim::Tokens));
            }
            Role::Vector | Role::Matrix | Role::Table => {
                let axes: Vec<usize> = axes.iter().map(|n| larger(*n)).collect();
                shapes.push(Shape::fixed(&axes));
                weights.push(axes);
            }
            _ => return None,
        }
    }
    let [result] = &op.infer(&shapes.iter().collect::<Vec<_>>()).ok()?[..] else { return None };
    Some(Guarded { op: op.clone(), columns: result.columns(), given, weights })
}

/// The op's dispatches, preceded by one that fills its result with the first input; none of an op whose kernels do not
/// read the number of rows.
fn dispatches(
    case: &Guarded,
    rows: usize,
    graph: &mut Graph,
    capabilities: &super::super::Capabilities,
) -> Option<Vec<Dispatch>> {
    let marks = graph.input("marks", Shape::matrix(Dim::Tokens, case.columns), DType::F32);
    let mut operands: Vec<ValueId> = Vec::new();
    for columns in &case.given {
        operands.push(match columns {
            None => graph.input("ids", Shape::vector(Dim::Tokens), DType::U32),
            Some(n) => graph.input("given", Shape::matrix(Dim::Tokens, *n), DType::F32),
        });
    }
    for (place, axes) in case.weights.iter().enumerate() {
        operands.push(graph.weight(vec![format!("weight {place}").into()], Shape::fixed(axes)));
    }
    let identity = Activation::from(ActivationKind::Identity);
    let filled = graph.node("fill", identity, &[marks]).unwrap();
    let result = graph.node("op", case.op.clone(), &operands).unwrap();
    graph.outputs = vec![filled, result];
    let mut all = lower(&Plan::new(graph.clone()), capabilities).ok()?;
    let y = *all.last().unwrap().bindings.last().unwrap();
    *all[0].bindings.last_mut().unwrap() = y;
    for dispatch in &mut all[1..] {
        let members: Vec<&str> = dispatch.variant.push.iter().map(|member| member.name).take(2).collect();
        if members != ["rows_of", "rows"] {
            return None;
        }
        dispatch.push[..8].copy_from_slice(bytemuck::cast_slice(&[0u32, rows as u32]));
    }
    Some(all)
}

#[test]
fn nothing_is_written_past_the_last_row() {
    let settings = Settings { allow_cpu_vulkan: true, debug: true, ..Settings::default() };
    let opened = match open_device(None, &settings) {
        Ok((opened, _)) => opened,
        Err(error) if crate::settings::test_requires("vulkan") => panic!("{error}"),
        Err(error) => return println!("skipped: nothing_is_written_past_the_last_row: {error}"),
    };
    let mut seen = BTreeSet::new();
    let examples = Op::examples();
    // Rows of odd length, and of quads.
    let larger: [fn(usize) -> usize; 2] = [|n| 10 * n + 3, |n| 12 * n];
    for case in larger.iter().flat_map(|larger| examples.iter().filter_map(|example| guarded(example, *larger))) {
        for rows in [0, 1, 15, 129] {
            let mut graph = Graph::new();
            let Some(all) = dispatches(&case, rows, &mut graph, &opened.device.capabilities) else { continue };
            seen.insert(case.op.name());
            let ones = |axes: &Vec<usize>| vec![1.0f32; axes.iter().product()];
            let weights = case.weights.iter().enumerate();
            let bytes = |axes| bytemuck::cast_slice(&ones(axes)).to_vec();
            let weights = weights.map(|(i, axes)| (format!("weight {i}"), (axes.clone(), bytes(axes)))).collect();
            let plan = Arc::new(Plan::new(graph));
            let program = prepare_dispatches(&opened, plan, all, &Ones(weights), ProgramOptions::default()).unwrap();
            let tokens = rows + GUARD;
            let marks = vec![MARK; tokens * case.columns];
            // Zeros are valid as numbers and as ids.
            let given: Vec<Vec<f32>> = case.given.iter().map(|n| vec![0.0; tokens * n.unwrap_or(1)]).collect();
            let inputs = std::iter::once(&marks).chain(&given).map(|v| bytemuck::cast_slice(v)).collect();
            let feed = Feed { counts: Counts::new(tokens, 1), inputs, outputs: vec![1] };
            let found = program.submit(&feed).unwrap().wait().unwrap().remove(0);
            let (own, guard) = found.split_at(rows * case.columns);
            assert!(own.iter().all(|v| *v != MARK), "{}: not all of {rows} rows are written", case.op.name());
            assert!(guard.iter().all(|v| *v == MARK), "{}: writes past {rows} rows", case.op.name());
        }
    }
    for name in
        ["activation", "binary", "embedding_sum", "layer_norm_linear", "linear", "normalize", "softmax_backward"]
    {
        assert!(seen.contains(name), "{name} was left out of {seen:?}");
    }
}
