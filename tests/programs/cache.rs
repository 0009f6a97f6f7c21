//! Attention over keys and values that a program appends, token by token, to caches on the device.

use std::sync::Arc;

use grilly::array::{Engine, Program};
use grilly::dtype::DType;
use grilly::graph::{Graph, ValueId};
use grilly::ops::{Attention, Counts, Dim, Op, SetRows, Shape};

use crate::{assert_valid, engines, floats, integers, numbers, read, turn};

const TOKENS: usize = 64;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD: usize = 16;
const WIDTH: usize = HEADS * HEAD;
const KV_WIDTH: usize = KV_HEADS * HEAD;

fn attention() -> Attention {
    let op = Attention { heads: HEADS, kv_heads: KV_HEADS, head_dim: HEAD, scale: 0.25, ..Attention::default() };
    Attention { causal: true, align_end: true, ..op }
}

/// One token's keys and values are appended, then its query sees all there are.
fn step() -> Graph {
    let mut graph = Graph::new();
    let row =
        |graph: &mut Graph, name: &str, columns| graph.input(name, Shape::matrix(Dim::Tokens, columns), DType::F32);
    let [q, k, v] = [("q", WIDTH), ("k", KV_WIDTH), ("v", KV_WIDTH)].map(|(name, width)| row(&mut graph, name, width));
    let at = graph.input("at", Shape::vector(Dim::Tokens), DType::I32);
    let q_offsets = graph.input("q_offsets", Shape::vector(Dim::Boundaries), DType::I32);
    let kv_offsets = graph.input("kv_offsets", Shape::vector(Dim::Boundaries), DType::I32);
    let append = |graph: &mut Graph, name: &str, rows: ValueId| {
        let cache = graph.state(name, Shape::fixed(&[TOKENS, KV_WIDTH]), DType::F32);
        graph.node(&format!("append to {name}"), SetRows {}, &[cache, rows, at]).unwrap()
    };
    let [keys, values] = [("keys", k), ("values", v)].map(|(name, rows)| append(&mut graph, name, rows));
    let y = graph.node("attention", attention(), &[q, keys, values, q_offsets, kv_offsets]).unwrap();
    graph.outputs = vec![y];
    graph
}

fn rows(engine: &Arc<Engine>) -> [Vec<f32>; 3] {
    let _ = engine;
    [numbers(1, TOKENS * WIDTH), numbers(2, TOKENS * KV_WIDTH), numbers(3, TOKENS * KV_WIDTH)]
}

#[test]
fn sixty_four_steps_over_a_cache_are_one_pass_in_bits() {
    let _turn = turn();
    for engine in engines("sixty_four_steps_over_a_cache_are_one_pass_in_bits") {
        let [q, k, v] = rows(&engine);
        let whole = [(&q, WIDTH), (&k, KV_WIDTH), (&v, KV_WIDTH)];
        let [qs, ks, vs] = whole.map(|(values, width)| floats(&engine, &[TOKENS, width], values));
        let offsets = integers(&engine, &[0, TOKENS as i32]);
        let expected = engine.call(&Op::from(attention()), &[&qs, &ks, &vs, &offsets, &offsets]).unwrap();
        let expected = read(&expected);

        // What a cache holds before its rows are written must not matter.
        let cache = floats(&engine, &[TOKENS, KV_WIDTH], &[f32::NAN; TOKENS * KV_WIDTH]);
        let counts = Counts::new(1, 1);
        let program = Program::new(&engine, step(), counts, &[&cache, &cache]).unwrap();
        for token in 0..TOKENS {
            let row = |values: &[f32], width: usize| floats(&engine, &[1, width], &values[token * width..][..width]);
            let (q, k, v) = (row(&q, WIDTH), row(&k, KV_WIDTH), row(&v, KV_WIDTH));
            let at = integers(&engine, &[token as i32]);
            let (own, all) = (integers(&engine, &[0, 1]), integers(&engine, &[0, token as i32 + 1]));
            let y = read(&program.run(&[&q, &k, &v, &at, &own, &all]).unwrap()[0]);
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&y), bits(&expected[token * WIDTH..][..WIDTH]), "{}: token {token}", engine.device());
        }
        let kept = program.states();
        assert_eq!((read(&kept[0]), read(&kept[1])), (k.clone(), v.clone()));
        assert!(read(&cache).iter().all(|x| x.is_nan()), "an array that is a state's beginning stays as it was");
    }
    assert_valid();
}

#[test]
fn a_row_outside_the_cache_is_refused_and_nothing_is_written() {
    let _turn = turn();
    for engine in engines("a_row_outside_the_cache_is_refused_and_nothing_is_written") {
        let mut graph = Graph::new();
        let cache = graph.state("cache", Shape::fixed(&[2, 3]), DType::F32);
        let x = graph.input("x", Shape::fixed(&[1, 3]), DType::F32);
        let at = graph.input("at", Shape::fixed(&[1]), DType::I32);
        graph.node("append", SetRows {}, &[cache, x, at]).unwrap();
        let program = Program::new(&engine, graph, Counts::default(), &[&floats(&engine, &[2, 3], &[0.0; 6])]).unwrap();
        let x = floats(&engine, &[1, 3], &[1.0, 2.0, 3.0]);
        for wrong in [2, -1] {
            let error = program.run(&[&x, &integers(&engine, &[wrong])]).unwrap_err();
            assert!(error.to_string().contains(&format!("index {wrong} is not in 0..2")), "{error}");
        }
        assert_eq!(read(&program.states()[0]), [0.0; 6]);
        program.run(&[&x, &integers(&engine, &[1])]).unwrap();
        assert_eq!(read(&program.states()[0]), [0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
        let short = floats(&engine, &[1, 2], &[1.0, 2.0]);
        let error = program.run(&[&short, &integers(&engine, &[1])]).unwrap_err().to_string();
        assert!(error.contains("x has shape [1, 2], expected [1, 3]"), "{error}");
    }
    assert_valid();
}

#[test]
fn a_cache_without_rows_is_no_fault() {
    let _turn = turn();
    for engine in engines("a_cache_without_rows_is_no_fault") {
        let mut graph = Graph::new();
        let cache = graph.state("cache", Shape::fixed(&[0, 3]), DType::F32);
        let x = graph.input("x", Shape::fixed(&[0, 3]), DType::F32);
        let at = graph.input("at", Shape::fixed(&[0]), DType::I32);
        graph.node("append", SetRows {}, &[cache, x, at]).unwrap();
        let none = floats(&engine, &[0, 3], &[]);
        let program = Program::new(&engine, graph, Counts::default(), &[&none]).unwrap();
        assert!(program.run(&[&none, &integers(&engine, &[])]).unwrap().is_empty());
        assert_eq!(program.states()[0].shape(), [0, 3]);
    }
    assert_valid();
}
