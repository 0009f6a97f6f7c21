//! On a device: no kernel writes past its last row. The result's buffer is filled with a marker value, then the op runs
//! on fewer rows than the buffer has.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::device::open_device;
use super::super::kernel::Dispatch;
use super::super::program::prepare_dispatches;
use super::lower;
use crate::backend::{Feed, ProgramOptions};
use crate::dtype::DType;
use crate::graph::{Graph, Plan, ValueId};
use crate::ops::{
    Activation, ActivationKind, Binary, BinaryKind, Counts, Dim, EmbeddingSum, LayerNorm, LayerNormBackward,
    LayerNormLinear, Linear, Normalize, Op, RmsNorm, RmsNormBackward, Shape, Softmax, SoftmaxBackward,
};
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
    /// Columns of the operands that are inputs of the batch.
    given: Vec<usize>,
    /// Axes of the weights, which follow the inputs.
    weights: Vec<Vec<usize>>,
}

fn cases() -> Vec<Guarded> {
    let activation = Activation::from;
    let case = |op: Op, columns, given, weights| Guarded { op, columns, given, weights };
    vec![
        case(activation(ActivationKind::Relu).into(), 33, vec![33], vec![]),
        case(Binary::from(BinaryKind::Add).into(), 65, vec![65, 65], vec![]),
        case(LayerNorm { eps: 1e-5 }.into(), 40, vec![40], vec![vec![40], vec![40]]),
        case(LayerNorm { eps: 1e-5 }.into(), 43, vec![43], vec![vec![43], vec![43]]),
        case(LayerNormBackward(LayerNorm { eps: 1e-5 }).into(), 40, vec![40, 40], vec![vec![40]]),
        case(Normalize::default().into(), 31, vec![31], vec![]),
        case(RmsNorm { eps: 1e-6 }.into(), 1030, vec![1030], vec![vec![1030]]),
        case(RmsNormBackward(RmsNorm { eps: 1e-6 }).into(), 33, vec![33, 33], vec![vec![33]]),
        case(Softmax::default().into(), 36, vec![36], vec![]),
        case(SoftmaxBackward {}.into(), 37, vec![37, 37], vec![]),
        case(Linear::default().into(), 70, vec![24], vec![vec![70, 24]]),
        case(Linear { bias: true, ..Linear::default() }.into(), 300, vec![7], vec![vec![300, 7], vec![300]]),
        case(LayerNormLinear::default().into(), 70, vec![24], vec![vec![24], vec![24], vec![70, 24]]),
        case(EmbeddingSum {}.into(), 50, vec![0], vec![vec![1, 50]]),
    ]
}

/// The op's dispatches, preceded by one that fills its result with the first input.
fn dispatches(
    case: &Guarded,
    rows: usize,
    graph: &mut Graph,
    capabilities: &super::super::Capabilities,
) -> Vec<Dispatch> {
    let marks = graph.input("marks", Shape::matrix(Dim::Tokens, case.columns), DType::F32);
    let mut operands: Vec<ValueId> = Vec::new();
    for columns in &case.given {
        operands.push(match columns {
            0 => graph.input("ids", Shape::vector(Dim::Tokens), DType::U32),
            n => graph.input("given", Shape::matrix(Dim::Tokens, *n), DType::F32),
        });
    }
    for (place, axes) in case.weights.iter().enumerate() {
        operands.push(graph.weight(vec![format!("weight {place}").into()], Shape::fixed(axes)));
    }
    let identity = Activation::from(ActivationKind::Identity);
    let filled = graph.node("fill", identity, &[marks]).unwrap();
    let result = graph.node("op", case.op.clone(), &operands).unwrap();
    graph.outputs = vec![filled, result];
    let mut all = lower(&Plan::new(graph.clone()), capabilities).unwrap();
    let y = *all.last().unwrap().bindings.last().unwrap();
    *all[0].bindings.last_mut().unwrap() = y;
    for dispatch in &mut all[1..] {
        // rows_of and rows, the first members in all of these kernels.
        dispatch.push[..8].copy_from_slice(bytemuck::cast_slice(&[0u32, rows as u32]));
    }
    all
}

#[test]
fn nothing_is_written_past_the_last_row() {
    let settings = Settings { allow_cpu_vulkan: true, debug: true, ..Settings::default() };
    let opened = match open_device(None, &settings) {
        Ok((opened, _)) => opened,
        Err(error) if crate::settings::test_requires("vulkan") => panic!("{error}"),
        Err(error) => return println!("skipped: nothing_is_written_past_the_last_row: {error}"),
    };
    for case in cases() {
        for rows in [0, 1, 15, 129] {
            let mut graph = Graph::new();
            let all = dispatches(&case, rows, &mut graph, &opened.device.capabilities);
            let ones = |axes: &Vec<usize>| vec![1.0f32; axes.iter().product()];
            let weights = case.weights.iter().enumerate();
            let bytes = |axes| bytemuck::cast_slice(&ones(axes)).to_vec();
            let weights = weights.map(|(i, axes)| (format!("weight {i}"), (axes.clone(), bytes(axes)))).collect();
            let plan = Arc::new(Plan::new(graph));
            let program = prepare_dispatches(&opened, plan, all, &Ones(weights), ProgramOptions::default()).unwrap();
            let tokens = rows + GUARD;
            let marks = vec![MARK; tokens * case.columns];
            // Zeros are valid as numbers and as ids.
            let given: Vec<Vec<f32>> = case.given.iter().map(|n| vec![0.0; tokens * (*n).max(1)]).collect();
            let inputs = std::iter::once(&marks).chain(&given).map(|v| bytemuck::cast_slice(v)).collect();
            let feed = Feed { counts: Counts::new(tokens, 1), inputs, outputs: vec![1] };
            let found = program.submit(&feed).unwrap().wait().unwrap().remove(0);
            let (own, guard) = found.split_at(rows * case.columns);
            assert!(own.iter().all(|v| *v != MARK), "{}: not all of {rows} rows are written", case.op.name());
            assert!(guard.iter().all(|v| *v == MARK), "{}: writes past {rows} rows", case.op.name());
        }
    }
}
