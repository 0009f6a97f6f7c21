//! `attention_output`, each architecture's shader and the CPU: against float64, against the generic shader in bits, and
//! against the pattern written down once more.
#![allow(clippy::disallowed_methods)]

mod engines;

use std::sync::Arc;

use grilly::array::{Array, Engine};
use grilly::dtype::DType;
use grilly::ops::{AttentionOutput, Op};

use engines::{bits, engines, numbers};

/// batch, heads, kv_heads, q_len, kv_len, head_dim: around the tiles of 64 and 128 rows, 16 and 32 keys, 32, 64 and 128
/// columns, vectors of four or not.
const SIZES: &[[usize; 6]] = &[
    [1, 1, 1, 1, 1, 1],
    [2, 3, 3, 63, 63, 32],
    [1, 4, 2, 65, 65, 33],
    [2, 4, 1, 130, 130, 64],
    [1, 2, 2, 64, 96, 128],
    [1, 6, 2, 17, 200, 65],
    [1, 4, 4, 33, 36, 260],
    [1, 8, 2, 3, 31, 8],
];

const ARCHITECTURES: &[&str] = &["", "gpt2", "t5", "llama", "modernbert", "longformer", "bigbird"];

fn upload(engine: &Arc<Engine>, shape: &[usize], values: &[f32]) -> Array {
    engine.upload(DType::F32, shape, bytemuck::cast_slice(values)).unwrap()
}

fn run(engine: &Arc<Engine>, op: &AttentionOutput, sizes: &[usize; 6], weights: &[f32], values: &[f32]) -> Vec<f32> {
    let [b, h, g, q, k, d] = *sizes;
    let weights = upload(engine, &[b, h, q, k], weights);
    let values = upload(engine, &[b, k, g, d], values);
    let y = engine.call(&Op::from(op.clone()), &[&weights, &values]).unwrap();
    assert_eq!(y.shape(), [b, q, h, d]);
    let bytes = y.read().unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The patterns, written as the papers have them and not as the shaders compute them.
fn sees(op: &AttentionOutput, row: usize, key: usize, kv_len: usize) -> bool {
    let distance = (row as i64 - key as i64).unsigned_abs();
    let local = op.window == 0 || distance <= u64::from(op.window);
    let global = row < op.global_tokens as usize || key < op.global_tokens as usize;
    match op.architecture.as_str() {
        "gpt2" => key <= row,
        "modernbert" => local,
        "longformer" => local || global,
        "bigbird" => {
            let (row_block, key_block) = (row / op.block as usize, key / op.block as usize);
            let draws =
                (0..op.random_blocks).map(|i| op.drawn(row_block as u32, i, kv_len.div_ceil(op.block as usize)));
            local || global || draws.into_iter().any(|block| block == key_block)
        }
        _ => true,
    }
}

/// Sum and sum of magnitudes of each element of the result.
fn reference(op: &AttentionOutput, sizes: &[usize; 6], weights: &[f32], values: &[f32]) -> Vec<(f64, f64)> {
    let [b, h, g, q, k, d] = *sizes;
    let mut y = Vec::with_capacity(b * q * h * d);
    for (text, row, head) in (0..b).flat_map(|b| (0..q).flat_map(move |q| (0..h).map(move |h| (b, q, h)))) {
        for column in 0..d {
            let terms = (0..k).filter(|key| sees(op, row, *key, k)).map(|key| {
                let w = weights[((text * h + head) * q + row) * k + key];
                f64::from(w) * f64::from(values[((text * k + key) * g + head * g / h) * d + column])
            });
            y.push(terms.fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs())));
        }
    }
    y
}

fn op(architecture: &str) -> AttentionOutput {
    AttentionOutput {
        architecture: architecture.into(),
        window: 9,
        global_tokens: 2,
        random_blocks: 2,
        block: 16,
        seed: 5,
    }
}

#[test]
fn every_architecture_keeps_to_its_pattern_and_to_float64() {
    for engine in engines("every_architecture_keeps_to_its_pattern_and_to_float64") {
        for (place, sizes) in SIZES.iter().enumerate() {
            let [b, h, g, q, k, d] = *sizes;
            let (weights, values) = (numbers(place as u64, b * h * q * k), numbers(99, b * k * g * d));
            for architecture in ARCHITECTURES {
                let op = op(architecture);
                let what = format!("{architecture:?} {sizes:?} on {}", engine.kind().name());
                let found = run(&engine, &op, sizes, &weights, &values);
                for (place, (y, (sum, all))) in found.iter().zip(reference(&op, sizes, &weights, &values)).enumerate() {
                    // k additions in order, each rounding once.
                    let bound = k as f64 * f64::from(f32::EPSILON) / 2.0 * all + 1e-30;
                    let error = (f64::from(*y) - sum).abs();
                    assert!(error <= bound, "{what}: element {place} is {y}, expected {sum} within {bound:e}");
                }
                assert_eq!(bits(&run(&engine, &op, sizes, &weights, &values)), bits(&found), "{what}: two runs differ");
            }
        }
    }
}

#[test]
fn every_shader_gives_the_bits_of_the_generic_one_with_its_mask() {
    for engine in engines("every_shader_gives_the_bits_of_the_generic_one_with_its_mask") {
        for sizes in SIZES {
            let [b, h, g, q, k, d] = *sizes;
            let values = numbers(7, b * k * g * d);
            for architecture in ARCHITECTURES {
                let op = op(architecture);
                let mut weights = numbers(3, b * h * q * k);
                for (place, w) in weights.iter_mut().enumerate() {
                    if !sees(&op, place / k % q, place % k, k) {
                        *w = 0.0;
                    }
                }
                let generic = AttentionOutput { architecture: String::new(), ..op.clone() };
                let [own, masked] = [&op, &generic].map(|op| bits(&run(&engine, op, sizes, &weights, &values)));
                assert!(own == masked, "{architecture:?} {sizes:?} on {}", engine.kind().name());
            }
        }
    }
}

#[test]
fn no_keys_give_zeros_and_no_rows_nothing() {
    for engine in engines("no_keys_give_zeros_and_no_rows_nothing") {
        for architecture in ARCHITECTURES {
            for sizes in [[2, 2, 1, 3, 4, 0], [0, 2, 1, 3, 4, 5], [2, 0, 0, 3, 4, 5], [2, 2, 1, 0, 4, 5]] {
                let [b, h, g, q, k, d] = sizes;
                let (weights, values) = (numbers(1, b * h * q * k), numbers(2, b * k * g * d));
                assert!(run(&engine, &op(architecture), &sizes, &weights, &values).is_empty());
            }
            let sizes = [2, 2, 1, 3, 0, 5];
            assert_eq!(run(&engine, &op(architecture), &sizes, &[], &[]), vec![0.0; 2 * 3 * 2 * 5], "{architecture:?}");
        }
    }
}

#[test]
fn nan_and_infinity_go_through() {
    for engine in engines("nan_and_infinity_go_through") {
        let sizes = [1, 1, 1, 2, 4, 4];
        let mut values = vec![1.0; 16];
        (values[0], values[5]) = (f32::NAN, f32::INFINITY);
        for architecture in ["", "t5", "llama"] {
            let y = run(&engine, &op(architecture), &sizes, &[0.5; 8], &values);
            for row in y.chunks(4) {
                assert!(row[0].is_nan() && row[1] == f32::INFINITY && row[2..] == [2.0, 2.0], "{row:?}");
            }
        }
    }
}
