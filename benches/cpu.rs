//! Benchmarks of the CPU's products, layer norm and attention, as calls on arrays: `cargo bench`.
//!
//! Compare with a run before a change (criterion stores the last one), on an otherwise idle machine.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use grilly::array::{Array, Engine};
use grilly::dtype::DType;
use grilly::ops::{LayerNorm, Linear, Matmul, Op};
use serde_json::json;

/// `[rows, columns]` of numbers between -1 and 1.
#[expect(clippy::disallowed_methods, reason = "any numbers")]
fn floats(engine: &Arc<Engine>, shape: &[usize]) -> Array {
    let values = (0..shape.iter().product::<usize>()).map(|i| (i as f32 * 0.618).sin());
    let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
    engine.upload(DType::F32, shape, &bytes).expect("the CPU has memory")
}

/// Times one call; the throughput is in flops.
fn time(criterion: &mut Criterion, name: &str, flops: usize, op: impl Into<Op>, operands: &[&Array]) {
    let op = op.into();
    let mut group = criterion.benchmark_group(op.name());
    group.throughput(Throughput::Elements(flops as u64));
    group.bench_function(name, |bencher| {
        bencher.iter(|| operands[0].engine().call(black_box(&op), operands).expect("the operands fit"));
    });
    group.finish();
}

/// Products of a layer of MiniLM (384) and of one of BERT (768), with few and with many tokens.
fn products(criterion: &mut Criterion) {
    let engine = Engine::of("cpu").expect("there is a CPU");
    for (m, k, n) in [(16, 384, 384), (1024, 384, 1536), (1024, 768, 3072)] {
        let (x, weight, bias) = (floats(&engine, &[m, k]), floats(&engine, &[n, k]), floats(&engine, &[n]));
        let op = Linear { bias: true, ..Linear::default() };
        time(criterion, &format!("{m}x{k}x{n}"), 2 * m * k * n, op, &[&x, &weight, &bias]);
    }
    let (a, b) = (floats(&engine, &[512, 512]), floats(&engine, &[512, 512]));
    time(criterion, "512x512x512", 2 * 512 * 512 * 512, Matmul::default(), &[&a, &b]);
}

fn layer_norm(criterion: &mut Criterion) {
    let engine = Engine::of("cpu").expect("there is a CPU");
    for (m, n) in [(16, 384), (4096, 384), (4096, 768)] {
        let (x, weight, bias) = (floats(&engine, &[m, n]), floats(&engine, &[n]), floats(&engine, &[n]));
        time(criterion, &format!("{m}x{n}"), 8 * m * n, LayerNorm { eps: 1e-5 }, &[&x, &weight, &bias]);
    }
}

/// 12 heads of 32 columns over texts of equal length; queries, keys and values are side by side as in a model.
fn attention(criterion: &mut Criterion) {
    const HEADS: usize = 12;
    const COLUMNS: usize = 32;
    let engine = Engine::of("cpu").expect("there is a CPU");
    for (texts, length) in [(32usize, 32usize), (4, 256), (1, 1024)] {
        let width = HEADS * COLUMNS;
        let qkv = floats(&engine, &[texts * length, 3 * width]);
        let offsets: Vec<u8> = (0..=texts).flat_map(|text| ((text * length) as u32).to_le_bytes()).collect();
        let offsets = engine.upload(DType::U32, &[texts + 1], &offsets).expect("the CPU has memory");
        let attributes = json!({
            "heads": HEADS, "kv_heads": HEADS, "head_dim": COLUMNS, "scale": 0.177, "k_column": width, "v_column": 2 * width
        });
        let op = Op::from_attributes("attention", attributes).expect("attributes of attention");
        let flops = 4 * texts * length * length * width;
        time(criterion, &format!("{texts} texts of {length}"), flops, op, &[&qkv, &qkv, &qkv, &offsets, &offsets]);
    }
}

criterion_group!(cpu, products, layer_norm, attention);
criterion_main!(cpu);
