//! A mixture of experts as a plan of batches, gated and normalized: against float64 on every device, and in bits alone.
#![allow(clippy::disallowed_methods)]

mod engines;

use std::collections::HashMap;
use std::sync::Arc;

use grilly::backend::{Backend, Executable, Feed, ProgramOptions, cpu};
use grilly::dtype::DType;
use grilly::graph::{Graph, Plan};
use grilly::ops::{Activation, ActivationKind, Counts, Dim, ExpertLinear, Gated, Linear, Route, Shape, WeightedSum};
use grilly::tensor::{TensorView, WeightSource};

use engines::{bits, device, numbers};

/// Columns of a row and between the products, experts, and experts of a row.
const SIZES: [usize; 4] = [20, 28, 5, 2];

struct Weights(HashMap<String, (Vec<usize>, Vec<f32>)>);

impl WeightSource for Weights {
    fn tensor(&self, name: &str) -> grilly::Result<TensorView<'_>> {
        let (axes, values) = &self.0[name];
        Ok(TensorView::new(DType::F32, DType::F32, axes, bytemuck::cast_slice(values)))
    }
}

/// The mixture's weights, of which the last expert's scores are so low that no row is routed to it.
fn weights() -> Weights {
    let [hidden, wide, experts, _] = SIZES;
    let tensors = [
        ("router", vec![experts, hidden]),
        ("gates", vec![experts]),
        ("in", vec![experts, 2 * wide, hidden]),
        ("in bias", vec![experts, 2 * wide]),
        ("out", vec![experts, hidden, wide]),
        ("bias", vec![hidden]),
    ];
    let tensor = |(seed, (name, axes)): (usize, (&str, Vec<usize>))| {
        let mut values = numbers(seed as u64 + 1, axes.iter().product());
        if name == "gates" {
            values[experts - 1] = -100.0;
        }
        (name.to_owned(), (axes, values))
    };
    Weights(tensors.into_iter().enumerate().map(tensor).collect())
}

/// The program of a mixture, whose outputs are its result and the weights of the experts.
fn program(backend: &dyn Backend) -> Arc<dyn Executable> {
    let (weights, [hidden, ..]) = (weights(), SIZES);
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, hidden), DType::F32);
    let constant = |graph: &mut Graph, name: &str| graph.weight(vec![name.into()], Shape::fixed(&weights.0[name].0));
    let [router, gates, inner, inner_bias, outer, bias] =
        ["router", "gates", "in", "in bias", "out", "bias"].map(|name| constant(&mut graph, name));
    let linear = Linear { bias: true, ..Linear::default() };
    let scores = graph.node("scores", linear, &[x, router, gates]).unwrap();
    let [weight, order, starts] =
        graph.apply("route", Route { top_k: SIZES[3], normalized: true }, &[scores]).unwrap()[..]
    else {
        panic!()
    };
    let biased = ExpertLinear { bias: true, activation: None };
    let y = graph.node("in", biased, &[x, inner, order, starts, inner_bias]).unwrap();
    let y = graph.node("gated", Gated(Activation::from(ActivationKind::Silu)), &[y]).unwrap();
    let y = graph.node("out", ExpertLinear::default(), &[y, outer, order, starts]).unwrap();
    let y = graph.node("sum", WeightedSum { bias: true }, &[y, weight, bias]).unwrap();
    graph.outputs = vec![y, weight];
    backend.prepare(Arc::new(Plan::new(graph)), Arc::new(weights), ProgramOptions::default()).unwrap()
}

fn run(program: &dyn Executable, x: &[f32]) -> Vec<Vec<f32>> {
    let counts = Counts::new(x.len() / SIZES[0], 1);
    let feed = Feed { counts, inputs: vec![bytemuck::cast_slice(x)], outputs: vec![0, 1] };
    program.submit(&feed).unwrap().wait().unwrap()
}

/// The result for a row in float64, and its experts.
fn expected(row: &[f32]) -> (Vec<f64>, Vec<usize>) {
    let (Weights(weights), [hidden, wide, experts, top_k]) = (weights(), SIZES);
    let tensor = |name: &str| &weights[name].1;
    let dot = |a: &[f64], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * f64::from(*b)).sum::<f64>();
    let x: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
    let score = |e: usize| dot(&x, &tensor("router")[e * hidden..][..hidden]) + f64::from(tensor("gates")[e]);
    let scores: Vec<f64> = (0..experts).map(score).collect();
    let mut chosen: Vec<usize> = (0..experts).collect();
    chosen.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    chosen.truncate(top_k);
    let total: f64 = chosen.iter().map(|e| scores[*e].exp()).sum();
    let mut y: Vec<f64> = tensor("bias").iter().map(|b| f64::from(*b)).collect();
    for e in &chosen {
        let product = |n: usize| {
            let row = e * 2 * wide + n;
            dot(&x, &tensor("in")[row * hidden..][..hidden]) + f64::from(tensor("in bias")[row])
        };
        let gated: Vec<f64> = (0..wide)
            .map(|n| {
                let gate = product(wide + n);
                product(n) * gate / (1.0 + (-gate).exp())
            })
            .collect();
        for (n, y) in y.iter_mut().enumerate() {
            *y += scores[*e].exp() / total * dot(&gated, &tensor("out")[(e * hidden + n) * wide..][..wide]);
        }
    }
    (y, chosen)
}

fn check(backend: &dyn Backend) {
    let (program, hidden) = (program(backend), SIZES[0]);
    let x = numbers(77, 700 * hidden);
    let all = run(&*program, &x);
    let mut rows_of_experts = [0; SIZES[2]];
    for (row, y) in x.chunks_exact(hidden).zip(all[0].chunks_exact(hidden)) {
        let (expected, chosen) = expected(row);
        chosen.iter().for_each(|expert| rows_of_experts[*expert] += 1);
        let size = expected.iter().fold(1.0f64, |most, y| most.max(y.abs()));
        for (y, expected) in y.iter().zip(&expected) {
            // Sums of 20 and 28 products of numbers below 1, and gates of them.
            assert!((f64::from(*y) - expected).abs() <= 2e-5 * size, "{y} {expected} on {}", backend.device_name());
        }
    }
    assert!(rows_of_experts[..4].iter().all(|rows| *rows > 50) && rows_of_experts[4] == 0, "{rows_of_experts:?}");
    for weights in all[1].chunks_exact(SIZES[3]) {
        assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-6 && weights[0] >= weights[1]);
    }
    for (first, rows) in [(0, 1), (699, 1), (13, 2), (200, 300), (5, 256)] {
        let some = run(&*program, &x[first * hidden..(first + rows) * hidden]);
        assert_eq!(bits(&some[0]), bits(&all[0][first * hidden..][..rows * hidden]), "rows {first}.. {rows}");
        assert_eq!(bits(&some[1]), bits(&all[1][first * SIZES[3]..][..rows * SIZES[3]]));
    }
    assert!(run(&*program, &[])[0].is_empty());
}

#[test]
fn a_mixture_on_the_cpu() {
    check(&*cpu::backend());
}

#[cfg(feature = "vulkan")]
#[test]
fn a_mixture_on_the_vulkan_device() {
    let Some(device) = device("a_mixture_on_the_vulkan_device") else { return };
    check(&*device);
    engines::assert_valid();
}
