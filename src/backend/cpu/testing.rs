//! Shared by the kernels' tests: one-op programs over given arrays, instruction sets, data and float64 references.

use std::collections::HashMap;
use std::sync::Arc;

use super::program::CpuProgram;
use super::simd::Arch;
use crate::Result;
use crate::backend::{Executable, Feed, ProgramOptions};
use crate::dtype::DType;
use crate::graph::fuse::Fusion;
use crate::graph::{Graph, Plan, ValueId};
use crate::numerics::Numerics;
use crate::ops::{Counts, Op, Shape};
use crate::tensor::{TensorView, WeightSource};

/// Tensors in memory.
#[derive(Default)]
pub struct Tensors(HashMap<String, (Vec<usize>, DType, Vec<u8>)>);

impl Tensors {
    /// Adds a tensor as `stored`, offset by one byte in its allocation so that it is not aligned.
    pub fn insert(&mut self, name: &str, shape: &[usize], stored: DType, values: &[f32]) {
        let mut bytes = vec![0; 1 + stored.bytes(values.len())];
        stored.encode(values, &mut bytes[1..]);
        self.0.insert(name.into(), (shape.to_vec(), stored, bytes));
    }
}

impl WeightSource for Tensors {
    fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let (shape, stored, bytes) = self
            .0
            .get(name)
            .ok_or_else(|| crate::Error::Weights { path: "test".into(), problems: vec![format!("missing {name}")] })?;
        Ok(TensorView::new(*stored, DType::F32, shape, &bytes[1..]))
    }
}

/// One operand of an op under test.
pub enum Operand<'a> {
    Floats(Shape, &'a [f32]),
    Indices(Shape, &'a [u32]),
    Weight(&'a [usize], &'a [f32]),
}

/// The instruction sets this machine can run.
pub fn archs() -> Vec<Arch> {
    Arch::all()
}

/// Runs one op as its own plan.
pub fn try_run(
    op: impl Into<Op>,
    operands: &[Operand<'_>],
    counts: Counts,
    arch: Arch,
    threads: usize,
) -> Result<Vec<f32>> {
    try_run_as(Numerics::Run, op.into(), operands, counts, (arch, threads))
}

/// As [`run`], with the numbers that are the same everywhere: checks that instruction sets change no bit either.
pub fn run_everywhere(op: impl Into<Op>, operands: &[Operand<'_>], counts: Counts) -> Vec<f32> {
    let op = op.into();
    let run = |arch, threads| {
        try_run_as(Numerics::Everywhere, op.clone(), operands, counts, (arch, threads)).expect("the op runs")
    };
    let first = run(Arch::new(), 1);
    for arch in archs() {
        for threads in [1, 2, 5] {
            let other = run(arch, threads);
            let place = first.iter().zip(&other).position(|(a, b)| a.to_bits() != b.to_bits());
            assert!(place.is_none(), "{}: element {place:?} differs on {arch:?} with {threads} threads", op.name());
        }
    }
    first
}

fn try_run_as(
    numerics: Numerics,
    op: Op,
    operands: &[Operand<'_>],
    counts: Counts,
    (arch, threads): (Arch, usize),
) -> Result<Vec<f32>> {
    let mut graph = Graph::new();
    let mut tensors = Tensors::default();
    let mut inputs: Vec<&[u8]> = Vec::new();
    let mut ids: Vec<ValueId> = Vec::new();
    for (i, operand) in operands.iter().enumerate() {
        ids.push(match operand {
            Operand::Floats(shape, values) => {
                inputs.push(bytemuck::cast_slice(values));
                graph.input(&format!("operand {i}"), shape.clone(), DType::F32)
            }
            Operand::Indices(shape, values) => {
                inputs.push(bytemuck::cast_slice(values));
                graph.input(&format!("operand {i}"), shape.clone(), DType::U32)
            }
            Operand::Weight(shape, values) => {
                let name = format!("weight {i}");
                tensors.insert(&name, shape, DType::F32, values);
                graph.weight(vec![name.into()], Shape::fixed(shape))
            }
        });
    }
    let result = graph.node("the op", op, &ids)?;
    graph.outputs = vec![result];
    let options = ProgramOptions { num_threads: Some(threads), memory_limit: None };
    let plan = Plan::with(graph, &Fusion { numerics, ..Fusion::default() })?;
    let program = CpuProgram::new(Arc::new(plan), Arc::new(tensors), options, arch)?;
    Ok(program.submit(&Feed { counts, inputs, outputs: vec![0] })?.wait()?.remove(0))
}

/// As [`try_run`], but must succeed; also checks that thread counts change no bit.
pub fn run(op: impl Into<Op>, operands: &[Operand<'_>], counts: Counts, arch: Arch) -> Vec<f32> {
    let op = op.into();
    let alone = try_run(op.clone(), operands, counts, arch, 1).expect("the op runs");
    for threads in [2, 3, 7] {
        let shared = try_run(op.clone(), operands, counts, arch, threads).expect("the op runs");
        assert!(same_bits(&alone, &shared), "{} with {threads} threads differs from 1", op.name());
    }
    alone
}

/// Whether the arrays are equal in every bit.
pub fn same_bits(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}

/// Numbers in about -2..2, reproducible from the seed (Steele, Lea, Flood 2014: SplitMix64; sums of four uniforms).
pub fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut uniform = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 24) as f32
    };
    (0..count).map(|_| (uniform() + uniform() + uniform() + uniform() - 2.0) * 1.5).collect()
}

/// Checks `found` against `expected` within `tolerance(i)`; NaN must match NaN.
pub fn assert_close(found: &[f32], expected: &[f64], what: &str, tolerance: impl Fn(usize) -> f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (x, y)) in found.iter().zip(expected).enumerate() {
        if y.is_nan() || (*y as f32).is_infinite() {
            assert!((y.is_nan() && x.is_nan()) || *x == *y as f32, "{what}: element {i} is {x}, expected {y}");
            continue;
        }
        // Equal values pass even where a tolerance is relative to an infinite argument.
        let error = (f64::from(*x) - y).abs();
        assert!(
            error == 0.0 || error <= tolerance(i),
            "{what}: element {i} is {x}, expected {y}: off by {error:e}, allowed {:e}",
            tolerance(i)
        );
    }
}

/// `erf` in float64: the series where it converges fast, the continued fraction of `erfc` beyond.
pub fn erf(x: f64) -> f64 {
    let t = x.abs();
    let two_by_root_pi = std::f64::consts::FRAC_2_SQRT_PI;
    let y = if t < 3.0 {
        let (mut term, mut total) = (t, t);
        for n in 1..200 {
            term *= -t * t / n as f64;
            total += term / (2 * n + 1) as f64;
        }
        two_by_root_pi * total
    } else {
        let mut fraction = 0.0;
        for n in (1..200).rev() {
            fraction = n as f64 / 2.0 / (t + fraction);
        }
        1.0 - (-t * t).exp() / (t + fraction) * two_by_root_pi / 2.0
    };
    y.copysign(x)
}
