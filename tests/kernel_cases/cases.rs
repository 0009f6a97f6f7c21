//! The table of cases: operands around every tile's edges, with harmless and with hostile values.

use std::collections::HashMap;

use grilly::dtype::DType;
use grilly::ops::reduce::Stage;
use grilly::ops::{
    Activation, ActivationBackward, ActivationKind, Attention, AttentionMask, AttentionScores, Binary,
    BinaryCrossEntropy, BinaryKind, Counts, CrossEntropy, CrossEntropyBackward, Dim, Dropout, EmbeddingBackward,
    EmbeddingSum, Floor, Gated, GatedBackward, LayerNorm, LayerNormBackward, Linear, Matmul, Normalize, Op, Pool,
    PoolMode, Reduce, ReduceKind, Residual, RmsNorm, RmsNormBackward, Rope, Shape, Softmax, SoftmaxBackward,
};

/// An operand with its values.
#[derive(Clone)]
pub enum Tensor {
    /// Given with the batch: rows, columns, elements.
    Floats(Dim, usize, Vec<f32>),
    /// Given with the batch: one number a row.
    Vector(Dim, Vec<f32>),
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
            Tensor::Vector(rows, _) => Shape::vector(*rows),
            Tensor::Integers(rows, _) => Shape::vector(*rows),
            Tensor::Array(axes, _) | Tensor::Weight(axes, _) => Shape::fixed(axes),
        }
    }

    pub fn floats(&self) -> &[f32] {
        match self {
            Tensor::Floats(_, _, values)
            | Tensor::Vector(_, values)
            | Tensor::Array(_, values)
            | Tensor::Weight(_, values) => values,
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
    /// How floats given with the batch, matrices of weights and the result are stored.
    pub stored: DType,
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
    Case { name, op: op.into(), operands, counts, offsets, stored: DType::F32 }
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

/// What makes the cases. Groups share no pipeline, and those at even places take about as long as the others.
const GROUPS: [fn(&mut Vec<Case>); 12] = [
    linear,
    products,
    attention,
    elementwise,
    rowwise,
    losses,
    reductions,
    attention_in_parts,
    embeddings,
    pooling,
    narrow,
    hidden_keys,
];

/// The name of the cases with the widest heads.
pub const WIDEST: &str = "attention of the widest heads";

/// Of how many cases of a name one is in the sample. Variants of a case come by twos, threes and fours, so that steps
/// of seven meet all of them in turn. The sample is for other subgroup sizes and drivers than the first: of what uses
/// subgroup operations, it has more.
const STEPS: [(&str, usize); 2] = [("linear", 4), ("", 7)];

/// All cases.
pub fn all() -> Vec<Case> {
    table("all")
}

/// "all" cases, the "first half" or the "second half" of them, or a "sample".
pub fn table(name: &str) -> Vec<Case> {
    let of = |places: std::ops::Range<usize>| {
        let mut cases = Vec::new();
        places.step_by(if name.ends_with("half") { 2 } else { 1 }).for_each(|place| GROUPS[place](&mut cases));
        cases
    };
    match name {
        "all" | "first half" => of(0..GROUPS.len()),
        "second half" => of(1..GROUPS.len()),
        "sample" => {
            let mut seen = HashMap::new();
            let mut cases = of(0..GROUPS.len());
            cases.retain(|case| {
                let place = seen.entry(case.name).or_insert(0);
                *place += 1;
                let (_, step) = STEPS.iter().find(|(op, _)| case.op.name() == *op || op.is_empty()).unwrap();
                (*place - 1) % step == 0
            });
            cases
        }
        _ => panic!("there is no table {name:?}"),
    }
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
                let op = Attention {
                    heads,
                    kv_heads,
                    head_dim,
                    scale,
                    k_column: q,
                    v_column: q + kv,
                    causal,
                    ..Attention::default()
                };
                let tensor = || rows(7, Dim::Tokens, (tokens, q + 2 * kv), values);
                let offsets = || Tensor::Integers(Dim::Boundaries, offsets(lengths));
                let operands = vec![tensor(), tensor(), tensor(), offsets(), offsets()];
                let name = if head_dim == 256 { WIDEST } else { "attention" };
                cases.push(case(name, op, lengths, operands));
            }
        }
    }
    // Keys of other lengths than the queries; one text has none.
    let (lengths, others) = ([3, 70, 0, 5, 40], [65, 9, 2, 0, 130]);
    let (count, head_dim) = (others.iter().sum(), 20);
    for causal in [false, true] {
        for values in [Plain, NotFinite] {
            let op =
                Attention { heads: 4, kv_heads: 2, head_dim, scale: 0.2, k_column: 3, causal, ..Attention::default() };
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

/// Windows, places that all see, places from the end on and biases, over queries and keys of equal and other lengths.
fn hidden_keys(cases: &mut Vec<Case>) {
    let plain = Attention { heads: 4, kv_heads: 2, head_dim: 24, scale: 0.2, ..Attention::default() };
    let masks = [
        Attention { window: 1, ..plain.clone() },
        Attention { window: 64, causal: true, ..plain.clone() },
        Attention { window: 5, global_tokens: 3, ..plain.clone() },
        Attention { window: 5, global_tokens: 70, causal: true, align_end: true, ..plain.clone() },
        Attention { causal: true, align_end: true, ..plain.clone() },
        Attention { window: u32::MAX, global_tokens: u32::MAX, ..plain.clone() },
        Attention { bias: true, ..plain.clone() },
        Attention { bias: true, causal: true, align_end: true, ..plain.clone() },
        Attention { bias: true, window: 30, global_tokens: 1, shared_by: 2, ..plain.clone() },
        Attention { causal: true, shared_by: 3, ..plain },
    ];
    let own = [63, 0, 65, 1, 200, 7];
    let others = [65, 9, 2, 0, 130, 900];
    for (place, op) in masks.into_iter().enumerate() {
        for (lengths, keys) in [(&own, &own), (&own, &others), (&others, &own)] {
            for values in [Plain, NotFinite] {
                let count: usize = keys[..6 / op.shared_by].iter().sum();
                let mut operands = vec![
                    rows(61, Dim::Tokens, (lengths.iter().sum(), 96), Plain),
                    rows(62, Dim::Fixed(count), (count, 48), values),
                    rows(63, Dim::Fixed(count), (count, 48), values),
                    Tensor::Integers(Dim::Boundaries, offsets(lengths)),
                    Tensor::Integers(Dim::Fixed(6 / op.shared_by + 1), offsets(&keys[..6 / op.shared_by])),
                ];
                // As many rows as heads, or as there are in two texts; distances within a block and past it.
                let (table, columns) = ([4, 8][place % 2], [1, 33, 301][place % 3]);
                operands.extend(op.bias.then(|| array(64, &[table, columns], Plain)));
                cases.push(case("attention of some keys", op.clone(), lengths, operands));
            }
        }
    }
}

/// 32 lanes share a row up to 1024 columns, then 256; each keeps up to 8 groups of 4 columns.
fn rowwise(cases: &mut Vec<Case>) {
    for (m, n) in [(1usize, 1), (7, 31), (8, 32), (9, 33), (17, 384), (2, 1000), (3, 1025), (2, 2048), (2, 8200)] {
        for values in [Plain, Outliers, NotFinite] {
            let lengths = [m.div_ceil(2), m / 2];
            let x = || rows(8, Dim::Tokens, (m, n), values);
            let eps = 1e-5;
            cases.push(case("layer_norm", LayerNorm { eps }, &lengths, vec![x(), weight(9, &[n]), weight(10, &[n])]));
            cases.push(case("normalize", Normalize::default(), &lengths, vec![x()]));
            cases.push(case("normalize", Normalize { eps: 0.5, floor: Floor::Add }, &lengths, vec![x()]));
            let g = || rows(16, Dim::Tokens, (m, n), Plain);
            let backward = LayerNormBackward { eps };
            cases.push(case("layer_norm_backward", backward, &lengths, vec![g(), x(), weight(9, &[n])]));
            cases.push(case("rms_norm", RmsNorm { eps }, &lengths, vec![x(), weight(9, &[n])]));
            cases.push(case("rms_norm_backward", RmsNormBackward { eps }, &lengths, vec![g(), x(), weight(9, &[n])]));
            cases.push(case("softmax", Softmax::default(), &lengths, vec![x()]));
            cases.push(case("softmax_backward", SoftmaxBackward {}, &lengths, vec![g(), x()]));
            let keep = Tensor::Integers(Dim::Fixed(n), (0..n as u32).map(|i| i % 3).collect());
            cases.push(case("softmax of some", Softmax::default(), &lengths, vec![x(), keep]));
        }
    }
    // More lanes for longer rows, and rows too long to be kept at hand.
    for (m, n) in [(3, 513), (5, 1025), (3, 2050), (2, 8196)] {
        for values in [Plain, NotFinite] {
            cases.push(case("normalize", Normalize::default(), &[m], vec![rows(8, Dim::Tokens, (m, n), values)]));
        }
    }
    let zeros = Tensor::Floats(Dim::Tokens, 5, vec![0.0; 10]);
    cases.push(case("normalize of zeros", Normalize::default(), &[2], vec![zeros]));
}

fn losses(cases: &mut Vec<Case>) {
    for (place, (m, n)) in [(1usize, 1), (7, 31), (8, 32), (17, 385), (3, 2048), (2, 9000)].into_iter().enumerate() {
        for values in [Plain, Outliers, NotFinite] {
            let targets = (0..m as u32).map(|i| if i % 3 == 1 { u32::MAX } else { i * 7 % n as u32 }).collect();
            let mut operands = vec![rows(8, Dim::Tokens, (m, n), values), Tensor::Integers(Dim::Tokens, targets)];
            operands.extend((place % 2 == 1).then(|| weight(9, &[n])));
            let label_smoothing = if place % 3 == 1 { 0.1 } else { 0.0 };
            cases.push(case("cross_entropy", CrossEntropy { label_smoothing }, &[m], operands.clone()));
            operands.insert(0, Tensor::Vector(Dim::Tokens, numbers(17, m)));
            cases.push(case("cross_entropy_backward", CrossEntropyBackward { label_smoothing }, &[m], operands));
        }
    }
}

/// 1024 elements a chunk, 32 columns a workgroup.
fn reductions(cases: &mut Vec<Case>) {
    use ReduceKind::*;
    for (axes, axis) in
        [(vec![1], 0), (vec![257], 0), (vec![3, 1023], 1), (vec![33, 5], 0), (vec![2, 65, 33], 1), (vec![1025, 2], 0)]
    {
        for kind in [Sum, Mean, Max, Deviation] {
            let op = Reduce { axis, kind, stage: Stage::Whole };
            let mut x = numbers(18, axes.iter().product());
            if axes.len() == 3 {
                x[7] = f32::NAN;
                x[8] = f32::INFINITY;
            }
            let x = Tensor::Weight(axes.clone(), x);
            if kind != Deviation {
                let weights = numbers(19, axes[..=axis].iter().product()).iter().map(|w| w.max(0.0)).collect();
                let weights = Tensor::Weight(axes[..=axis].to_vec(), weights);
                cases.push(case("weighted reduce", op.clone(), &[1], vec![x.clone(), weights]));
            }
            cases.push(case("reduce", op, &[1], vec![x]));
        }
    }
}

const KINDS: [ActivationKind; 15] = {
    use ActivationKind::*;
    [
        Identity, GeluErf, GeluTanh, Relu, Silu, Tanh, Sigmoid, QuickGelu, Softplus, Gcu, LeakyRelu, Roswish, Sqrt,
        Exp, Log,
    ]
};

/// Operand of a nonlinearity: small, middling and large numbers, special ones first, within its domain.
fn argument(seed: u64, kind: ActivationKind, (m, n): (usize, usize)) -> Tensor {
    let mut x = rows(seed, Dim::Tokens, (m, n), Plain);
    if let Tensor::Floats(_, _, data) = &mut x {
        data.iter_mut().enumerate().for_each(|(i, v)| *v *= [0.001, 1.0, 4.0][i % 3]);
        let special = [0.0, f32::NAN, 20.0, -20.0, 100.0, -100.0, 1e4, f32::INFINITY];
        data[..special.len()].copy_from_slice(&special);
        if matches!(kind, ActivationKind::Sqrt | ActivationKind::Log) {
            data.iter_mut().for_each(|v| *v = v.abs());
        }
    }
    x
}

/// 1024 or 4096 elements a workgroup, four at a time.
fn elementwise(cases: &mut Vec<Case>) {
    for (place, kind) in KINDS.into_iter().enumerate() {
        let function = Activation { kind, a: 0.7, b: 1.3 };
        for shape in [(1, 4095), (2, 4097), (300, 40)] {
            let x = argument(11, kind, shape);
            cases.push(case("activation", function.clone(), &[shape.0], vec![x]));
        }
        let shape = [(1, 4095), (5, 1026), (300, 40)][place % 3];
        let gradient = rows(15, Dim::Tokens, shape, Plain);
        let operands = vec![gradient, argument(16, kind, shape)];
        cases.push(case("activation_backward", ActivationBackward(function.clone()), &[shape.0], operands));
        for (m, n) in [(3, 1), (5, 33), (70, 64)] {
            let gradient = rows(17, Dim::Tokens, (m, n), Plain);
            let x = || argument(18, kind, (m, 2 * n + 8 * usize::from(m == 3)));
            if m > 3 {
                let op = GatedBackward(function.clone());
                cases.push(case("gated_backward", op, &[m], vec![gradient, x()]));
            }
            cases.push(case("gated", Gated(function.clone()), &[m], vec![x()]));
        }
    }
    arithmetic(cases);
    for (m, n) in [(1, 1), (3, 1365), (40, 104)] {
        for (p, offset) in [(0.0, 0), (0.3, 5), (1.0, u64::MAX)] {
            let op = Dropout { p, seed: 0x0123_4567_89ab_cdef, offset };
            cases.push(case("dropout", op, &[m], vec![rows(19, Dim::Tokens, (m, n), NotFinite)]));
        }
        let share = |seed| {
            let values = numbers(seed, m * n).iter().map(|v| 0.25 * v.abs()).collect();
            Tensor::Floats(Dim::Tokens, n, values)
        };
        let mut operands = vec![share(20), share(21)];
        if let Tensor::Floats(_, _, data) = &mut operands[0]
            && n > 8
        {
            data[..6].copy_from_slice(&[0.0, 1.0, 1e-30, 0.999_999_9, f32::NAN, 0.25]);
        }
        cases.push(case("binary_cross_entropy", BinaryCrossEntropy {}, &[m], operands));
    }
}

fn arithmetic(cases: &mut Vec<Case>) {
    for kind in [BinaryKind::Add, BinaryKind::Subtract, BinaryKind::Multiply, BinaryKind::Divide] {
        let op = Binary { kind };
        for (m, n) in [(1, 1), (1, 4097), (205, 20)] {
            let (a, b) = (rows(12, Dim::Tokens, (m, n), NotFinite), rows(13, Dim::Tokens, (m, n), Outliers));
            cases.push(case("binary", op.clone(), &[m], vec![a, b]));
            for axes in [&[n][..], &[1], &[]] {
                let a = rows(12, Dim::Tokens, (m, n), NotFinite);
                cases.push(case("binary of rows", op.clone(), &[m], vec![a, weight(13, axes)]));
            }
        }
        for (a, b) in [
            (&[2, 3, 4, 5][..], &[2, 1, 4, 1][..]),
            (&[6, 8, 4, 8], &[6, 1, 4, 1]),
            (&[5, 4, 3, 8], &[1, 4, 1, 8]),
            (&[3, 5, 7], &[5, 1]),
        ] {
            cases.push(case("binary of axes", op.clone(), &[1], vec![weight(12, a), weight(13, b)]));
        }
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
    for (tokens, columns, rows_) in [(1usize, 1, 1), (5, 63, 3), (33, 64, 7), (40, 1030, 4)] {
        let ids: Vec<usize> = (0..tokens).map(|i| i * 5 % 3 % rows_).collect();
        let mut order: Vec<u32> = (0..tokens as u32).collect();
        order.sort_by_key(|i| ids[*i as usize]);
        let starts = (0..=rows_).map(|row| ids.iter().filter(|id| **id < row).count() as u32).collect();
        let operands = vec![
            rows(23, Dim::Tokens, (tokens, columns), NotFinite),
            Tensor::Integers(Dim::Tokens, order),
            Tensor::Integers(Dim::Fixed(rows_ + 1), starts),
        ];
        cases.push(case("embedding_backward", EmbeddingBackward {}, &[tokens], operands));
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

/// What has kernels for types of 16 bits: operands are numbers of the type.
fn narrow(cases: &mut Vec<Case>) {
    for stored in [DType::F16, DType::Bf16] {
        let mut more = Vec::new();
        for (place, (m, n, k)) in [(1, 4, 4), (17, 64, 20), (129, 132, 36), (5, 260, 1536)].into_iter().enumerate() {
            for values in [Plain, Outliers, NotFinite] {
                let residual = if place % 2 == 1 { Residual::Added } else { Residual::None };
                let op = Linear { bias: true, activation: Some(ActivationKind::GeluErf), residual };
                let mut operands = vec![rows(1, Dim::Tokens, (m, k), values), weight(2, &[n, k]), weight(3, &[n])];
                operands.extend((place % 2 == 1).then(|| rows(4, Dim::Tokens, (m, n), Plain)));
                more.push(case("narrow linear", op, &[m.div_ceil(2), m / 2], operands));
            }
        }
        let lengths = [5, 0, 66, 1, 40];
        let tokens: usize = lengths.iter().sum();
        for (heads, kv_heads, head_dim) in [(4, 2, 8), (1, 1, 64), (2, 1, 80)] {
            let (q, kv, scale) = (heads * head_dim, kv_heads * head_dim, 1.0 / (head_dim as f32).sqrt());
            let op = |causal| Attention {
                heads,
                kv_heads,
                head_dim,
                scale,
                k_column: q,
                v_column: q + kv,
                causal,
                ..Attention::default()
            };
            for (values, causal) in [(Plain, false), (Outliers, true), (NotFinite, false)] {
                let tensor = || rows(7, Dim::Tokens, (tokens, q + 2 * kv), values);
                let offsets = || Tensor::Integers(Dim::Boundaries, offsets(&lengths));
                let operands = vec![tensor(), tensor(), tensor(), offsets(), offsets()];
                more.push(case("narrow attention", op(causal), &lengths, operands.clone()));
                let op = Attention { window: 9, global_tokens: 2, align_end: true, bias: true, ..op(causal) };
                let table = array(65, &[heads, 15], Plain);
                more.push(case("narrow attention of some keys", op, &lengths, [operands, vec![table]].concat()));
            }
        }
        for (m, n) in [(7usize, 32), (17, 384), (3, 1028), (2, 8200)] {
            for values in [Plain, Outliers, NotFinite] {
                let operands = vec![rows(8, Dim::Tokens, (m, n), values), weight(9, &[n]), weight(10, &[n])];
                let lengths = [m.div_ceil(2), m / 2];
                let (x, scale) = (operands[0].clone(), operands[1].clone());
                more.push(case("narrow norm", LayerNorm { eps: 1e-5 }, &lengths, operands));
                more.push(case("narrow rms_norm", RmsNorm { eps: 1e-6 }, &lengths, vec![x.clone(), scale]));
                more.push(case("narrow softmax", Softmax::default(), &lengths, vec![x.clone()]));
                let silu = Activation::from(ActivationKind::Silu);
                more.push(case("narrow activation", silu.clone(), &lengths, vec![x.clone()]));
                if n % 8 == 0 {
                    more.push(case("narrow gated", Gated(silu), &lengths, vec![x.clone()]));
                }
                let dropout = Dropout { p: 0.25, seed: 3, offset: 5 };
                more.push(case("narrow dropout", dropout, &lengths, vec![x.clone()]));
                let other = rows(13, Dim::Tokens, (m, n), Plain);
                more.push(case("narrow binary", Binary::from(BinaryKind::Divide), &lengths, vec![x, other]));
            }
        }
        for (tokens, columns, tables) in [(3, 64, 1), (5, 4, 3), (9, 384, 7)] {
            let operands = (0..tables)
                .flat_map(|table: usize| {
                    [ids(20 + table as u64, tokens, 11 + table), weight(40 + table as u64, &[11 + table, columns])]
                })
                .collect();
            more.push(case("narrow embeddings", EmbeddingSum {}, &[tokens], operands));
        }
        for (values, skipped) in [(Plain, [0; 5]), (NotFinite, [1, 0, 40, 0, 3])] {
            use PoolMode::*;
            let modes = vec![Cls, Max, Mean, MeanSqrtLength, WeightedMean, LastToken];
            let operands = vec![
                rows(14, Dim::Tokens, (tokens, 68), values),
                Tensor::Integers(Dim::Boundaries, offsets(&lengths)),
                Tensor::Integers(Dim::Texts, skipped.to_vec()),
            ];
            more.push(case("narrow pool", Pool { modes }, &lengths, operands));
        }
        for case in &mut more {
            case.stored = stored;
            for operand in &mut case.operands {
                match operand {
                    Tensor::Floats(_, _, values) => stored.round(values),
                    Tensor::Weight(axes, values) if axes.len() == 2 => stored.round(values),
                    _ => {}
                }
            }
        }
        cases.extend(more);
    }
}
