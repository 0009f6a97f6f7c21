//! A small plan with known results, and the way to a device.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grilly::backend::{Backend, Executable, Feed, Pending, ProgramOptions};
use grilly::dtype::DType;
use grilly::graph::{Graph, Plan};
use grilly::ops::{Activation, ActivationKind, Binary, BinaryKind, Counts, Dim, LayerNorm, Linear, Shape};
use grilly::stats::{COUNTERS, Snapshot};
use grilly::tensor::{TensorView, WeightSource};

pub use crate::engines::{assert_valid, device, settings};

pub const COLUMNS: usize = 40;
const WIDE: usize = 72;

/// Counters, faults and the device are the process'; tests take turns.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tensors by name, in any stored type.
#[derive(Default)]
pub struct Tensors(HashMap<String, (DType, Vec<usize>, Vec<u8>)>);

impl Tensors {
    pub fn insert(&mut self, name: &str, shape: &[usize], stored: DType) {
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|i| value(name, i)).collect();
        let mut bytes = vec![0; stored.bytes(count)];
        stored.encode(&values, &mut bytes);
        self.0.insert(name.into(), (stored, shape.to_vec(), bytes));
    }

    pub fn values(&self, name: &str) -> Vec<f64> {
        let view = self.tensor(name).unwrap();
        let mut values = vec![0.0f32; view.elements()];
        view.read_f32(0, &mut values).unwrap();
        values.into_iter().map(f64::from).collect()
    }
}

impl WeightSource for Tensors {
    fn tensor(&self, name: &str) -> grilly::Result<TensorView<'_>> {
        let (stored, shape, bytes) = &self.0[name];
        Ok(TensorView::new(*stored, DType::F32, shape, bytes))
    }
}

/// Numbers in -1..1 that look random and depend on name and place.
pub fn value(name: &str, place: usize) -> f32 {
    let seed = name.bytes().fold(place as u64 + 1, |h, b| (h ^ u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mixed = (seed ^ (seed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// `norm(x + relu(x A^T + a) B^T)`, with A of two stacked parts stored as f16 and bf16. Outputs: that, and the product
/// before the sum.
pub fn plan() -> (Arc<Plan>, Arc<Tensors>) {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, COLUMNS), DType::F32);
    let a = graph.weight(vec!["a0".into(), "a1".into()], Shape::fixed(&[WIDE, COLUMNS]));
    let bias = graph.weight(vec!["bias".into()], Shape::fixed(&[WIDE]));
    let b = graph.weight(vec!["b".into()], Shape::fixed(&[COLUMNS, WIDE]));
    let gain = graph.weight(vec!["gain".into()], Shape::fixed(&[COLUMNS]));
    let shift = graph.weight(vec!["shift".into()], Shape::fixed(&[COLUMNS]));
    let wide = graph.node("wide", Linear { bias: true, ..Linear::default() }, &[x, a, bias]).unwrap();
    let wide = graph.node("relu", Activation::from(ActivationKind::Relu), &[wide]).unwrap();
    let narrow = graph.node("narrow", Linear::default(), &[wide, b]).unwrap();
    let sum = graph.node("sum", Binary::from(BinaryKind::Add), &[narrow, x]).unwrap();
    let norm = graph.node("norm", LayerNorm { eps: 1e-5 }, &[sum, gain, shift]).unwrap();
    graph.outputs = vec![norm, narrow];
    let mut tensors = Tensors::default();
    tensors.insert("a0", &[WIDE - 24, COLUMNS], DType::F16);
    tensors.insert("a1", &[24, COLUMNS], DType::Bf16);
    tensors.insert("bias", &[WIDE], DType::F32);
    tensors.insert("b", &[COLUMNS, WIDE], DType::F32);
    tensors.insert("gain", &[COLUMNS], DType::F32);
    tensors.insert("shift", &[COLUMNS], DType::F32);
    (Arc::new(Plan::new(graph)), Arc::new(tensors))
}

/// The plan's outputs in float64.
pub fn expected(tensors: &Tensors, x: &[f32]) -> [Vec<f64>; 2] {
    let a = [tensors.values("a0"), tensors.values("a1")].concat();
    let [bias, b, gain, shift] = ["bias", "b", "gain", "shift"].map(|name| tensors.values(name));
    let dot = |u: &[f64], v: &[f64]| u.iter().zip(v).map(|(p, q)| p * q).sum::<f64>();
    let (mut norms, mut products) = (Vec::new(), Vec::new());
    for row in x.chunks_exact(COLUMNS) {
        let row: Vec<f64> = row.iter().map(|v| f64::from(*v)).collect();
        let wide: Vec<f64> =
            a.chunks_exact(COLUMNS).zip(&bias).map(|(w, bias)| (dot(w, &row) + bias).max(0.0)).collect();
        let narrow: Vec<f64> = b.chunks_exact(WIDE).map(|w| dot(w, &wide)).collect();
        let sum: Vec<f64> = narrow.iter().zip(&row).map(|(p, q)| p + q).collect();
        let mean = sum.iter().sum::<f64>() / COLUMNS as f64;
        let variance = sum.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / COLUMNS as f64;
        let scale = 1.0 / (variance + 1e-5).sqrt();
        norms.extend(sum.iter().enumerate().map(|(i, v)| (v - mean) * scale * gain[i] + shift[i]));
        products.extend(narrow);
    }
    [norms, products]
}

/// Rows of input that differ from batch to batch.
pub fn input(tokens: usize, batch: usize) -> Vec<f32> {
    (0..tokens * COLUMNS).map(|i| value("x", i + 7919 * batch)).collect()
}

pub fn prepare(
    device: &Arc<dyn Backend>,
    options: ProgramOptions,
) -> grilly::Result<(Arc<dyn Executable>, Arc<Tensors>)> {
    let (plan, tensors) = plan();
    Ok((device.prepare(plan, tensors.clone(), options)?, tensors))
}

pub fn start(program: &Arc<dyn Executable>, x: &[f32], outputs: &[usize]) -> grilly::Result<Pending> {
    let tokens = x.len() / COLUMNS;
    program.submit(&Feed {
        counts: Counts::new(tokens, tokens.min(1)),
        inputs: vec![bytemuck::cast_slice(x)],
        outputs: outputs.to_vec(),
    })
}

/// Sums of at most 72 products of numbers below 4, then one division by a standard deviation near 1: a few hundred
/// roundings of 6e-8 each.
pub fn assert_close(found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= 2e-5 * expected.abs().max(1.0), "element {i}: {found}, expected {expected}");
    }
}

pub fn counters() -> Snapshot {
    COUNTERS.snapshot()
}
