//! Batches of two sequences per text: queries of tokens see keys of other rows, which the batch counts apart.

use std::sync::Arc;

use grilly::Error;
use grilly::array::ByLength;
use grilly::backend::{Backend, BackendKind, Executable, Feed, ProgramOptions, cpu};
use grilly::dtype::DType;
use grilly::graph::fuse::Fusion;
use grilly::graph::{Graph, Plan};
use grilly::ops::{Attention, Counts, Dim, Linear, Op, Pool, PoolMode, Shape};
use grilly::tensor::{TensorView, WeightSource};

use crate::engines::{bits, device};
use crate::{assert_valid, numbers, turn};

const HEADS: usize = 2;
const HEAD: usize = 8;
const WIDTH: usize = HEADS * HEAD;
const STATE: usize = 12;
const SCALE: f64 = 0.5;

struct Weight(Vec<u8>);

impl WeightSource for Weight {
    fn tensor(&self, _: &str) -> grilly::Result<TensorView<'_>> {
        Ok(TensorView::new(DType::F32, DType::F32, &[2 * WIDTH, STATE], &self.0))
    }
}

/// `attention(x, s W^T)`, with `s [R0, 12]`, then `s W^T` and its mean per text.
fn graph() -> Graph {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::matrix(Dim::Tokens, WIDTH), DType::F32);
    let states = graph.input("states", Shape::matrix(Dim::Counted(0), STATE), DType::F32);
    let [own, other] =
        ["offsets", "state offsets"].map(|name| graph.input(name, Shape::vector(Dim::Boundaries), DType::U32));
    let weight_id = graph.weight(vec!["weight".into()], Shape::fixed(&[2 * WIDTH, STATE]));
    let kv = graph.node("keys and values", Linear::default(), &[states, weight_id]).unwrap();
    let op = Attention {
        heads: HEADS,
        kv_heads: HEADS,
        head_dim: HEAD,
        scale: SCALE as f32,
        v_column: WIDTH,
        ..Attention::default()
    };
    let attention = graph.node("attention", op, &[x, kv, kv, own, other]).unwrap();
    let first = graph.input("first", Shape::vector(Dim::Texts), DType::U32);
    let mean = graph.node("mean", Pool { modes: vec![PoolMode::Mean] }, &[kv, other, first]).unwrap();
    graph.outputs = vec![attention, kv, mean];
    graph
}

/// The program with attention fused, and that with its parts for pairs of one length.
fn prepare(backend: &dyn Backend, weight: &[f32]) -> [Arc<dyn Executable>; 2] {
    let weight = Weight(bytemuck::cast_slice(weight).to_vec());
    let apart = |op: &Op, _: usize| matches!(op, Op::AttentionOutput(_)).then(|| "a reason".to_owned());
    let parts = Plan::with(graph(), &Fusion { apart: &apart, ..Fusion::default() }).unwrap();
    let text = parts.to_string();
    assert!(text.contains("attention_output") && text.contains("texts of one length S and S0"), "{text}");
    let options = ProgramOptions::default();
    let parts = ByLength::prepare(backend, &parts, &weight, options).unwrap();
    [backend.prepare(Arc::new(Plan::new(graph())), Arc::new(weight), options).unwrap(), parts]
}

/// Queries and states of texts with these lengths.
struct Batch {
    lengths: Vec<(usize, usize)>,
    x: Vec<f32>,
    states: Vec<f32>,
}

impl Batch {
    fn new(lengths: &[(usize, usize)]) -> Self {
        let of = |seed: usize, rows: usize, width: usize| numbers(seed as u64, rows * width);
        let texts = || lengths.iter().enumerate();
        Batch {
            lengths: lengths.to_vec(),
            x: texts().flat_map(|(text, (queries, _))| of(2 * text + 1, *queries, WIDTH)).collect(),
            states: texts().flat_map(|(text, (_, keys))| of(2 * text + 2, *keys, STATE)).collect(),
        }
    }

    fn counts(&self) -> Counts {
        Counts::new(self.x.len() / WIDTH, self.lengths.len()).with(0, self.states.len() / STATE)
    }

    fn run(&self, program: &dyn Executable, shift: u32) -> grilly::Result<Vec<Vec<f32>>> {
        let offsets = |of: fn(&(usize, usize)) -> usize| {
            let ends = self.lengths.iter().scan(0, |end, lengths| {
                *end += of(lengths) as u32;
                Some(*end)
            });
            [0].into_iter().chain(ends).collect::<Vec<u32>>()
        };
        let (own, mut other) = (offsets(|lengths| lengths.0), offsets(|lengths| lengths.1));
        *other.last_mut().unwrap() += shift;
        let first = vec![0u32; self.lengths.len()];
        let inputs: [&[u8]; 5] = [
            bytemuck::cast_slice(&self.x),
            bytemuck::cast_slice(&self.states),
            bytemuck::cast_slice(&own),
            bytemuck::cast_slice(&other),
            bytemuck::cast_slice(&first),
        ];
        program.submit(&Feed { counts: self.counts(), inputs: inputs.to_vec(), outputs: vec![0, 1, 2] })?.wait()
    }

    /// In float64.
    fn expected(&self, weight: &[f32]) -> Vec<f64> {
        let mut y = Vec::new();
        let (mut query, mut first) = (0, 0);
        for (queries, keys) in &self.lengths {
            let kv = |key: usize, column: usize| -> f64 {
                let state = &self.states[(first + key) * STATE..][..STATE];
                let row = &weight[column * STATE..][..STATE];
                state.iter().zip(row).map(|(s, w)| f64::from(*s) * f64::from(*w)).sum()
            };
            for row in self.x[query * WIDTH..][..queries * WIDTH].chunks_exact(WIDTH) {
                for head in 0..HEADS {
                    let columns = head * HEAD..(head + 1) * HEAD;
                    let score = |key| columns.clone().map(|c| f64::from(row[c]) * kv(key, c)).sum::<f64>() * SCALE;
                    let e: Vec<f64> = (0..*keys).map(|key| score(key).exp()).collect();
                    let sum: f64 = e.iter().sum();
                    let value = |c: usize| e.iter().enumerate().map(|(key, e)| e / sum * kv(key, WIDTH + c)).sum();
                    y.extend(columns.clone().map(|c| if *keys > 0 { value(c) } else { 0.0 }));
                }
            }
            (query, first) = (query + queries, first + keys);
        }
        y
    }
}

#[test]
fn a_second_sequence_has_its_own_count() {
    let _turn = turn();
    let test = "a_second_sequence_has_its_own_count";
    let weight = numbers(99, 2 * WIDTH * STATE);
    let backends = [Some(cpu::backend() as Arc<dyn Backend>), device(test)].into_iter().flatten();
    let programs = backends.flat_map(|backend| {
        let of = |program, rising: &str| (backend.clone(), program, rising.to_owned());
        let [fused, parts] = prepare(&*backend, &weight);
        let clamped = backend.kind() == BackendKind::Vulkan;
        let fused = of(fused, if clamped { "" } else { "state offsets: expected 3 offsets rising from 0 to 9" });
        [fused, of(parts, "offsets do not rise from 0 to 9")]
    });
    for (backend, program, rising) in programs {
        let name = backend.device_name();
        // Larger and smaller batches, in either sequence.
        for lengths in [&[(3, 5), (0, 4), (7, 0), (2, 300)][..], &[(200, 1)], &[(1, 700), (64, 64)], &[(3, 0)]] {
            let batch = Batch::new(lengths);
            let found = batch.run(&*program, 0).unwrap();
            assert_eq!(found[1].len(), batch.counts().others[0] * 2 * WIDTH);
            for (place, (y, expected)) in found[0].iter().zip(batch.expected(&weight)).enumerate() {
                assert!((f64::from(*y) - expected).abs() < 1e-5, "{name}, {lengths:?}: {place}: {y}, {expected}");
            }
            let mut rows = found[1].chunks_exact(2 * WIDTH);
            for ((_, states), mean) in lengths.iter().zip(found[2].chunks_exact(2 * WIDTH)) {
                let own: Vec<&[f32]> = rows.by_ref().take(*states).collect();
                for (column, y) in mean.iter().enumerate() {
                    let sum: f64 = own.iter().map(|row| f64::from(row[column])).sum();
                    let expected = sum / (*states).max(1) as f64;
                    assert!((f64::from(*y) - expected).abs() < 1e-5, "{name}, {lengths:?}: mean {y}, {expected}");
                }
            }
            let alone = Batch::new(&lengths[..1]).run(&*program, 0).unwrap();
            assert_eq!(bits(&alone[0]), bits(&found[0][..alone[0].len()]), "{name}, {lengths:?}");
        }
        // Past the last state: an error, or what the shader clamps.
        match Batch::new(&[(3, 5), (2, 4)]).run(&*program, 1) {
            Err(Error::InvalidArgument(text)) => assert!(!rising.is_empty() && text.contains(&rising), "{text}"),
            beyond => assert!(beyond.is_ok() && rising.is_empty(), "{name}"),
        }
    }
    assert_valid();
}
