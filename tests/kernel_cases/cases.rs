//! The table of cases: operands around every tile's edges, with harmless and with hostile values.

use grilly::ops::{
    Activation, ActivationKind, Add, Attention, AttentionMask, AttentionScores, Counts, Dim, EmbeddingSum, LayerNorm,
    Linear, Matmul, Normalize, Op, Pool, PoolMode, Residual, Rope, Shape,
};

/// An operand with its values.
pub enum Tensor {
    /// Given with the batch: rows, columns, elements.
    Floats(Dim, usize, Vec<f32>),
    /// Given with the batch: rows, elements.
    Integers(Dim, Vec<u32>),
    /// Given with the batch, which does not count it: axes, elements.
    Array(Vec<usize>, Vec<f32>),
    /// The model's: axes, elements.
    Weight(Vec<usize>, Vec<f32>),
}

impl Tensor {
    pub fn shape(&self) -> Shape {
        match self {
            Tensor::Floats(rows, columns, _) => Shape::matrix(*rows, *columns),
            Tensor::Integers(rows, _) => Shape::vector(*rows),
            Tensor::Array(axes, _) | Tensor::Weight(axes, _) => Shape::fixed(axes),
        }
    }

    pub fn floats(&self) -> &[f32] {
        match self {
            Tensor::Floats(_, _, values) | Tensor::Array(_, values) | Tensor::Weight(_, values) => values,
            Tensor::Integers(..) => panic!("integers"),
        }
    }

    pub fn integers(&self) -> &[u32] {
        match self {
            Tensor::Integers(_, values) => values,
            _ => panic!("floats"),
        }
    }
}

/// One op with operands for a batch of texts.
pub struct Case {
    pub name: &'static str,
    pub op: Op,
    pub operands: Vec<Tensor>,
    pub counts: Counts,
    pub offsets: Vec<u32>,
}

/// What the values of an operand look like.
#[derive(Clone, Copy, PartialEq)]
enum Values {
    /// About -2 .. 2.
    Plain,
    /// Plain, with a column a thousand times as large, as transformers have.
    Outliers,
    /// Plain, with a NaN in the last row and an infinity in the one before.
    NotFinite,
}
use Values::{NotFinite, Outliers, Plain};

/// Numbers that look random and depend on the seed alone.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..count).map(|_| 2.0 * (next() + next())).collect()
}

fn rows(seed: u64, dim: Dim, shape: (usize, usize), values: Values) -> Tensor {
    let (count, columns) = shape;
    let mut data = numbers(seed, count * columns);
    if values == Outliers {
        data.iter_mut().skip(columns / 2).step_by(columns).for_each(|v| *v *= 1000.0);
    }
    if values == NotFinite && count > 1 {
        data[(count - 1) * columns] = f32::NAN;
        data[(count - 2) * columns + columns - 1] = f32::INFINITY;
    }
    Tensor::Floats(dim, columns, data)
}

fn weight(seed: u64, axes: &[usize]) -> Tensor {
    Tensor::Weight(axes.to_vec(), numbers(seed, axes.iter().product()))
}

fn array(seed: u64, axes: &[usize], values: Values) -> Tensor {
    let columns = *axes.last().unwrap();
    let Tensor::Floats(_, _, data) =
        rows(seed, Dim::Tokens, (axes.iter().product::<usize>() / columns, columns), values)
    else {
        unreachable!()
    };
    Tensor::Array(axes.to_vec(), data)
}

fn ids(seed: u64, count: usize, below: usize) -> Tensor {
    Tensor::Integers(Dim::Tokens, numbers(seed, count).iter().map(|v| (v.to_bits() >> 3) % below as u32).collect())
}

fn case(name: &'static str, op: impl Into<Op>, lengths: &[usize], operands: Vec<Tensor>) -> Case {
    let offsets = offsets(lengths);
    let counts = Counts { tokens: lengths.iter().sum(), texts: lengths.len() };
    Case { name, op: op.into(), operands, counts, offsets }
}

fn offsets(lengths: &[usize]) -> Vec<u32> {
    let mut sum = 0;
    std::iter::once(0)
        .chain(lengths.iter().map(|n| {
            sum += *n as u32;
            sum
        }))
        .collect()
}

/// All cases.
pub fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    linear(&mut cases);
    products(&mut cases);
    attention(&mut cases);
    attention_in_parts(&mut cases);
    rowwise(&mut cases);
    elementwise(&mut cases);
    embeddings(&mut cases);
    pooling(&mut cases);
    cases
}

/// Tiles are 128 x 128 x 16 and 16 x 64 or 256; loads take four elements.
fn linear(cases: &mut Vec<Case>) {
    let sizes = [
        (1, 1, 1),
        (15, 63, 3),
        (16, 64, 4),
        (17, 65, 5),
        (127, 127, 15),
        (128, 128, 16),
        (129, 129, 17),
        (33, 255, 32),
        (2, 257, 33),
        (1, 384, 384),
        (5, 40, 1536),
    ];
    for (place, (m, n, k)) in sizes.into_iter().enumerate() {
        for values in [Plain, Outliers, NotFinite] {
            let op = Linear {
                bias: place % 2 == 0,
                activation: (place % 3 == 0).then_some(ActivationKind::GeluErf),
                residual: if place % 4 < 2 { Residual::Added } else { Residual::None },
            };
            let mut operands = vec![rows(1, Dim::Tokens, (m, k), values), weight(2, &[n, k])];
            operands.extend(op.bias.then(|| weight(3, &[n])));
            operands.extend((op.residual == Residual::Added).then(|| rows(4, Dim::Tokens, (m, n), Plain)));
            cases.push(case("linear", op, &[m.div_ceil(2), m / 2], operands));
        }
    }
    // Rows that are texts, as in a Dense head.
    let operands = vec![rows(5, Dim::Texts, (3, 20), Plain), weight(6, &[7, 20])];
    cases.push(case("linear of texts", Linear::default(), &[1, 1, 1], operands));
}

/// Tiles are 16, 64 or 128 rows and columns, 16 or 64 terms; 256 tiles of 128 and more are needed for that size.
fn products(cases: &mut Vec<Case>) {
    let sizes = [(1, 1, 1), (15, 17, 3), (16, 64, 16), (17, 65, 63), (63, 16, 65), (65, 129, 17), (5, 3, 1025)];
    for (place, (m, n, k)) in sizes.into_iter().enumerate() {
        for (transpose_a, transpose_b) in [(false, false), (false, true), (true, false), (true, true)] {
            let values = [Plain, Outliers, NotFinite][place % 3];
            let op = Matmul { transpose_a, transpose_b, scale: if place % 2 == 0 { 1.0 } else { -0.3 } };
            let batch: &[usize] = if place % 2 == 0 { &[] } else { &[2, 3] };
            let axes = |turned: bool, rows, columns, batch: &[usize]| {
                [batch, &if turned { [columns, rows] } else { [rows, columns] }].concat()
            };
            let a = axes(transpose_a, m, k, batch);
            let b = axes(transpose_b, k, n, if place % 4 == 1 { &[] } else { batch });
            cases.push(case("matmul", op, &[1], vec![array(50, &a, values), array(51, &b, Plain)]));
        }
    }
    let operands = vec![array(52, &[256, 65, 5], NotFinite), array(53, &[256, 5, 66], Plain)];
    cases.push(case("matmul in large tiles", Matmul::default(), &[1], operands));
}

/// Axes b, s, h, g, keys, d.
fn attention_in_parts(cases: &mut Vec<Case>) {
    for (b, s, h, g, keys, d) in [(1, 1, 1, 1, 1, 2), (2, 5, 4, 2, 33, 6), (3, 17, 3, 1, 64, 32), (1, 65, 2, 2, 65, 8)]
    {
        for values in [Plain, Outliers, NotFinite] {
            let operands = vec![array(54, &[b, s, h, d], values), array(55, &[b, keys, g, d], Plain)];
            cases.push(case("attention_scores", AttentionScores { scale: 0.4 }, &[1], operands));
            for (causal, masked) in [(true, false), (false, true), (true, true)] {
                let mut operands = vec![array(56, &[b, h, s, keys], values)];
                let keep = (0..b * keys).map(|i| if i % 3 == 1 { 0.0 } else { 0.4 }).collect();
                operands.extend(masked.then(|| Tensor::Array(vec![b, keys], keep)));
                let op = AttentionMask { causal, mask_value: if masked { -1e9 } else { f32::NEG_INFINITY } };
                cases.push(case("attention_mask", op, &[1], operands));
            }
            for batch in [&[][..], &[b]] {
                let table = [batch, &[s, d / 2]].concat();
                let operands =
                    vec![array(57, &[b, s, h, d], values), array(58, &table, Plain), array(59, &table, Plain)];
                cases.push(case("rope", Rope {}, &[1], operands));
            }
        }
    }
}

/// Tiles are 64 tokens, keys 64, columns 32.
fn attention(cases: &mut Vec<Case>) {
    let batches: [&[usize]; 6] = [&[1], &[63, 64, 65], &[5, 0, 30, 1], &[200], &[0, 3, 128], &[25; 6]];
    let heads = [(2, 2, 32), (4, 2, 8), (2, 1, 64), (1, 1, 33), (3, 3, 7), (1, 1, 256)];
    for (lengths, (heads, kv_heads, head_dim)) in batches.into_iter().zip(heads) {
        let (q, kv) = (heads * head_dim, kv_heads * head_dim);
        let scale = 1.0 / (head_dim as f32).sqrt();
        let tokens: usize = lengths.iter().sum();
        for values in [Plain, Outliers, NotFinite] {
            for causal in [false, true] {
                let op =
                    Attention { heads, kv_heads, head_dim, scale, q_column: 0, k_column: q, v_column: q + kv, causal };
                let tensor = || rows(7, Dim::Tokens, (tokens, q + 2 * kv), values);
                let offsets = || Tensor::Integers(Dim::Boundaries, offsets(lengths));
                let operands = vec![tensor(), tensor(), tensor(), offsets(), offsets()];
                cases.push(case("attention", op, lengths, operands));
            }
        }
    }
    // Keys of other lengths than the queries; one text has none.
    let (lengths, others) = ([3, 70, 0, 5, 40], [65, 9, 2, 0, 130]);
    let (count, head_dim) = (others.iter().sum(), 20);
    for causal in [false, true] {
        for values in [Plain, NotFinite] {
            let op = Attention {
                heads: 4,
                kv_heads: 2,
                head_dim,
                scale: 0.2,
                q_column: 0,
                k_column: 3,
                v_column: 0,
                causal,
            };
            let keys = |columns| rows(60, Dim::Fixed(count), (count, columns), values);
            let operands = vec![
                rows(61, Dim::Tokens, (lengths.iter().sum(), 80), Plain),
                keys(43),
                keys(40),
                Tensor::Integers(Dim::Boundaries, offsets(&lengths)),
                Tensor::Integers(Dim::Fixed(6), offsets(&others)),
            ];
            cases.push(case("attention across", op, &lengths, operands));
        }
    }
}

/// 32 lanes share a row, 8 rows a workgroup.
fn rowwise(cases: &mut Vec<Case>) {
    for (m, n) in [(1usize, 1), (7, 31), (8, 32), (9, 33), (17, 384), (2, 1000)] {
        for values in [Plain, Outliers, NotFinite] {
            let lengths = [m.div_ceil(2), m / 2];
            let x = || rows(8, Dim::Tokens, (m, n), values);
            let eps = 1e-5;
            cases.push(case("layer_norm", LayerNorm { eps }, &lengths, vec![x(), weight(9, &[n]), weight(10, &[n])]));
            cases.push(case("normalize", Normalize { eps: 1e-12 }, &lengths, vec![x()]));
        }
    }
    let zeros = Tensor::Floats(Dim::Tokens, 5, vec![0.0; 10]);
    cases.push(case("normalize of zeros", Normalize { eps: 1e-12 }, &[2], vec![zeros]));
}

/// 4096 elements a workgroup.
fn elementwise(cases: &mut Vec<Case>) {
    use ActivationKind::*;
    for kind in [Identity, GeluErf, GeluTanh, Relu, Silu, Tanh, Sigmoid, QuickGelu] {
        for (m, n) in [(1, 4095), (2, 4097), (300, 40)] {
            let mut x = rows(11, Dim::Tokens, (m, n), Plain);
            if let Tensor::Floats(_, _, data) = &mut x {
                data.iter_mut().enumerate().for_each(|(i, v)| *v *= [0.001, 1.0, 4.0][i % 3]);
                let special = [0.0, f32::NAN, 20.0, -20.0, 100.0, -100.0, 1e30, f32::INFINITY];
                data[..special.len()].copy_from_slice(&special);
            }
            cases.push(case("activation", Activation { kind }, &[m], vec![x]));
        }
    }
    for (m, n) in [(1, 1), (1, 4097), (205, 20)] {
        let (a, b) = (rows(12, Dim::Tokens, (m, n), NotFinite), rows(13, Dim::Tokens, (m, n), Outliers));
        cases.push(case("add", Add {}, &[m], vec![a, b]));
    }
}

/// Four rows a workgroup, three tables a dispatch.
fn embeddings(cases: &mut Vec<Case>) {
    for (tokens, columns, tables) in [(1, 1, 1), (3, 63, 2), (4, 64, 3), (5, 65, 4), (9, 384, 7)] {
        let mut operands = Vec::new();
        for table in 0..tables {
            operands.push(ids(20 + table as u64, tokens, 11 + table));
            operands.push(weight(40 + table as u64, &[11 + table, columns]));
        }
        cases.push(case("embedding_sum", EmbeddingSum {}, &[tokens], operands));
    }
}

/// 64 columns a workgroup; blocks of 32 tokens.
fn pooling(cases: &mut Vec<Case>) {
    use PoolMode::*;
    let lengths = [31, 32, 33, 1, 0, 70];
    let tokens: usize = lengths.iter().sum();
    for columns in [1, 63, 64, 65, 384] {
        for (values, skipped) in [(Plain, [0; 6]), (Outliers, [1, 32, 5, 1, 0, 40]), (NotFinite, [0, 0, 40, 0, 3, 1])] {
            let modes = vec![Cls, Max, Mean, MeanSqrtLength, WeightedMean, LastToken];
            let operands = vec![
                rows(14, Dim::Tokens, (tokens, columns), values),
                Tensor::Integers(Dim::Boundaries, offsets(&lengths)),
                Tensor::Integers(Dim::Texts, skipped.to_vec()),
            ];
            cases.push(case("pool", Pool { modes }, &lengths, operands));
        }
    }
}
