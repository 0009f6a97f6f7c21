//! What each op means, in float64, with the distance float32 may have from it.
//!
//! With u = 2^-24, a sum of n terms in float32, in any order, is off by about `sqrt(n) u` times the sum of magnitudes
//! (errors add like random steps; Higham and Mary 2019); 8 standard deviations are allowed, and two roundings a term
//! for devices without fused multiply-add. Functions add a few units in the last place of their operands' errors.

use grilly::dtype::DType;
use grilly::ops::binary::broadcast;
use grilly::ops::{
    Activation, ActivationKind, AttentionMask, BinaryKind, Dropout, Floor, Matmul, Op, PoolMode, Reduce, ReduceKind,
    Residual,
};

use crate::cases::Case;

/// A value and how far from it a result may be.
type Bounded = (f64, f64);

const U: f64 = 1.0 / (1u64 << 24) as f64;

/// Results below the normal numbers may be zero.
const TINY: f64 = f32::MIN_POSITIVE as f64;

/// Bound of a sum of `terms` products whose magnitudes sum to `magnitude`.
fn sum_bound(terms: usize, magnitude: f64) -> f64 {
    8.0 * (2.0 * terms as f64 + 4.0).sqrt() * U * magnitude
}

/// The values an op gives on a case's operands.
pub fn run(case: &Case) -> Vec<Bounded> {
    let beyond = |y: f64| y.is_finite() && y.abs() > f64::from(f32::MAX);
    // What is pooled is float32.
    let stored = if matches!(case.op, Op::Pool(_)) { DType::F32 } else { case.stored };
    let round = |(y, bound): Bounded| {
        let y = if beyond(y) { f64::INFINITY.copysign(y) } else { y };
        (y, bound + if (y + bound).is_finite() { narrowing(stored, y.abs() + bound) } else { 0.0 })
    };
    exact(case).into_iter().map(round).collect()
}

/// How far storing a number moves it: half a unit in the last place, and below the normal numbers half their spacing.
fn narrowing(stored: DType, y: f64) -> f64 {
    match stored {
        DType::F16 => 2f64.powi(-11) * y + 2f64.powi(-25),
        DType::Bf16 => 2f64.powi(-8) * y + TINY,
        _ => 0.0,
    }
}

/// As [`run`], beyond float32's range, too.
fn exact(case: &Case) -> Vec<Bounded> {
    match &case.op {
        Op::Activation(op) => floats(case, 0).into_iter().map(|x| function(op, x)).collect(),
        Op::ActivationBackward(op) => {
            let (g, x) = (floats(case, 0), floats(case, 1));
            g.iter().zip(&x).map(|(g, x)| scaled(*g, slope(&op.0, *x))).collect()
        }
        Op::Attention(_) => attention(case),
        Op::AttentionMask(op) => attention_mask(case, op),
        Op::AttentionScores(op) => attention_scores(case, f64::from(op.scale)),
        Op::Binary(op) => binary(case, op.kind),
        Op::BinaryCrossEntropy(_) => {
            let (p, t) = (floats(case, 0), floats(case, 1));
            let loss = |p: f64, t: f64| -(t * larger(p.ln(), -100.0) + (1.0 - t) * larger((1.0 - p).ln(), -100.0));
            // Two logarithms and three roundings.
            p.iter().zip(&t).map(|(p, t)| loss(*p, *t)).map(|y| (y, 10.0 * U * y.abs() + 1e-12)).collect()
        }
        Op::Dropout(op) => dropout(case, op),
        Op::CrossEntropy(op) => cross_entropy(case, f64::from(op.label_smoothing)),
        Op::CrossEntropyBackward(op) => cross_entropy_backward(case, f64::from(op.label_smoothing)),
        Op::EmbeddingBackward(_) => embedding_backward(case),
        Op::EmbeddingSum(_) => embedding_sum(case),
        Op::Gated(op) => {
            let x = floats(case, 0);
            let rows = x.chunks_exact(columns(case, 0)).map(|row| row.split_at(row.len() / 2));
            rows.flat_map(|(x1, x2)| x1.iter().zip(x2)).map(|(x1, x2)| scaled(*x1, function(&op.0, *x2))).collect()
        }
        Op::GatedBackward(op) => gated_backward(case, &op.0),
        Op::LayerNorm(op) => layer_norm(case, f64::from(op.eps)),
        Op::LayerNormBackward(op) => norm_backward(case, f64::from(op.eps), true),
        Op::Linear(_) => linear(case),
        Op::Matmul(op) => matmul(case, op),
        Op::Normalize(op) => normalize(case, f64::from(op.eps), op.floor),
        Op::Pool(op) => pool(case, &op.modes),
        Op::Reduce(op) => reduce(case, op),
        Op::RmsNorm(op) => rms_norm(case, f64::from(op.eps)),
        Op::RmsNormBackward(op) => norm_backward(case, f64::from(op.eps), false),
        Op::Rope(_) => rope(case),
        Op::Softmax(_) => softmax(case),
        Op::SoftmaxBackward(_) => softmax_backward(case),
        other => panic!("no reference of {}", other.name()),
    }
}

fn floats(case: &Case, operand: usize) -> Vec<f64> {
    case.operands[operand].floats().iter().map(|v| f64::from(*v)).collect()
}

fn columns(case: &Case, operand: usize) -> usize {
    case.operands[operand].shape().columns()
}

/// Of a value that is itself off by `error`; no function here is steeper than 1.2.
fn activate(kind: ActivationKind, (x, error): Bounded) -> Bounded {
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    let y = match kind {
        ActivationKind::Identity => return (x, error),
        ActivationKind::GeluErf => 0.5 * x * (1.0 + erf(x * 0.5f64.sqrt())),
        ActivationKind::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }
        ActivationKind::Relu if x.is_nan() => x,
        ActivationKind::Relu => return (x.max(0.0), error),
        ActivationKind::Silu => x * logistic(x),
        ActivationKind::Tanh => x.tanh(),
        ActivationKind::Sigmoid => logistic(x),
        ActivationKind::QuickGelu => x * logistic(1.702 * x),
        other => panic!("no product ends with {other:?}"),
    };
    // The factor that x is multiplied with is near 1 + f, f in -1 .. 1: a few units of 1 times x.
    (y, 1.2 * error + 6.0 * U * x.abs().clamp(1e-3, 1e6) + 6.0 * U * y.abs())
}

/// The larger of two, NaN if either is.
fn larger(a: f64, b: f64) -> f64 {
    if a < b { b } else { a }
}

/// A bounded value times an exact one.
fn scaled(factor: f64, (y, bound): Bounded) -> Bounded {
    (factor * y, factor.abs() * bound + 2.0 * U * (factor * y).abs() + TINY)
}

/// The nonlinearities with parameters, too. Every function called adds a few units in the last place.
fn function(op: &Activation, x: f64) -> Bounded {
    let (a, b) = (f64::from(op.a), f64::from(op.b));
    let size = x.abs().min(1e6);
    let relative = |y: f64, units: f64| (y, 2.0 * units * U * y.abs() + TINY);
    match op.kind {
        ActivationKind::Softplus => relative(larger(x, 0.0) + (-x.abs()).exp().ln_1p(), 4.0),
        // Near its zeros the cosine has an absolute error.
        ActivationKind::Gcu => (x * x.cos(), 6.0 * U * size),
        ActivationKind::LeakyRelu => relative(if x < 0.0 { a * x } else { x }, 1.0),
        ActivationKind::Roswish => {
            let s = 1.0 / (1.0 + (-b * x).exp());
            // The argument's rounding moves the sigmoid by at most |b x| / 4 units, and only where it is small.
            let bound = 8.0 * U * ((size + a.abs()) * (1.0 + 0.3 * (b * size).abs().min(4.0)) + a.abs());
            ((x + a) * s - a / 2.0, bound)
        }
        ActivationKind::Sqrt => relative(x.sqrt(), 3.0),
        ActivationKind::Exp => relative(x.exp(), 3.0),
        ActivationKind::Log => relative(x.ln(), 3.0),
        kind => activate(kind, (x, 0.0)),
    }
}

/// Derivatives: sums of at most three parts of size 1, `|b (x + a)| / 4` or, for gcu, `|x|`, each off by a few units.
fn slope(op: &Activation, x: f64) -> Bounded {
    let (a, b) = (f64::from(op.a), f64::from(op.b));
    let size = x.abs().min(1e6);
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    let step = |below: f64| if x.is_nan() { x } else { [below, 1.0][usize::from(x > 0.0)] };
    let swish = |a: f64, b: f64| {
        let s = logistic(b * x);
        (s + b * (x + a) * s * (1.0 - s), 16.0 * U * (1.0 + b.abs() * (size.min(30.0) + a.abs())))
    };
    let units = 16.0 * U * (1.0 + size.min(30.0));
    let pi = std::f64::consts::PI;
    match op.kind {
        ActivationKind::Identity => (1.0, 0.0),
        ActivationKind::GeluErf => {
            (0.5 * (1.0 + erf(x * 0.5f64.sqrt())) + x * (-x * x / 2.0).exp() / (2.0 * pi).sqrt(), units)
        }
        ActivationKind::GeluTanh => {
            let scale = (2.0 / pi).sqrt();
            let t = (scale * (x + 0.044715 * x.powi(3))).tanh();
            let inner = scale * (1.0 + 3.0 * 0.044715 * x * x);
            (0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner, units)
        }
        ActivationKind::Relu => (step(0.0), 0.0),
        ActivationKind::LeakyRelu => (step(a), 0.0),
        ActivationKind::Silu => swish(0.0, 1.0),
        ActivationKind::QuickGelu => swish(0.0, 1.702),
        ActivationKind::Roswish => swish(a, b),
        ActivationKind::Tanh => (1.0 - x.tanh().powi(2), units),
        ActivationKind::Sigmoid => (logistic(x) * logistic(-x), units),
        ActivationKind::Softplus => (logistic(x), units),
        ActivationKind::Gcu => (x.cos() - x * x.sin(), 8.0 * U * (1.0 + size)),
        ActivationKind::Sqrt => (0.5 / x.sqrt(), 8.0 * U * (0.5 / x.sqrt())),
        ActivationKind::Exp => (x.exp(), 6.0 * U * x.exp() + TINY),
        ActivationKind::Log => (1.0 / x, 6.0 * U / x.abs()),
    }
}

fn gated_backward(case: &Case, op: &Activation) -> Vec<Bounded> {
    let (g, x, n) = (floats(case, 0), floats(case, 1), columns(case, 0));
    let mut out = Vec::new();
    for (g, x) in g.chunks_exact(n).zip(x.chunks_exact(2 * n)) {
        let (x1, x2) = x.split_at(n);
        out.extend(g.iter().zip(x2).map(|(g, x2)| scaled(*g, function(op, *x2))));
        out.extend(g.iter().zip(x1).zip(x2).map(|((g, x1), x2)| scaled(*g, scaled(*x1, slope(op, *x2)))));
    }
    out
}

fn binary(case: &Case, kind: BinaryKind) -> Vec<Bounded> {
    let (a, b) = (floats(case, 0), floats(case, 1));
    let axes = broadcast(&case.operands[0].shape(), &case.operands[1].shape()).unwrap();
    let combine = |(place, a): (usize, &f64)| {
        let (mut rest, mut at) = (place, 0);
        for axis in &axes {
            let size = if axis.size == 0 { usize::MAX } else { axis.size };
            at += rest % size * axis.stride;
            rest /= size;
        }
        let b = b[if axes.is_empty() { place } else { at }];
        // Vulkan allows a division 2.5 units.
        match kind {
            BinaryKind::Add => (a + b, U * (a + b).abs()),
            BinaryKind::Subtract => (a - b, U * (a - b).abs()),
            BinaryKind::Multiply => (a * b, U * (a * b).abs() + TINY),
            BinaryKind::Divide => (a / b, 6.0 * U * (a / b).abs() + TINY),
        }
    };
    a.iter().enumerate().map(combine).collect()
}

/// The random words are not computed anew here: `src/ops/rng.rs` has them with their known answers.
fn dropout(case: &Case, op: &Dropout) -> Vec<Bounded> {
    let keep = |place: usize| {
        grilly::ops::rng::uniforms::<1>(op.seed, op.offset.wrapping_add(place as u64 / 4))[0][place % 4] >= op.p
    };
    let kept = |x: &f64| x / f64::from(1.0 - op.p);
    let values = floats(case, 0);
    let values = values.iter().enumerate().map(|(place, x)| if keep(place) { kept(x) } else { 0.0 });
    values.map(|y| (y, 6.0 * U * y.abs())).collect()
}

/// Error function by its series and, from 3 on, the continued fraction of its complement.
fn erf(x: f64) -> f64 {
    let t = x.abs();
    let y = if x.is_nan() {
        x
    } else if t < 3.0 {
        let (mut term, mut sum) = (t, t);
        for n in 1..200 {
            term *= -t * t / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let fraction = (1..60).rev().fold(0.0, |tail, n| f64::from(n) / 2.0 / (t + tail));
        1.0 - (-t * t).exp() / ((t + fraction) * std::f64::consts::PI.sqrt())
    };
    y.copysign(x)
}

fn linear(case: &Case) -> Vec<Bounded> {
    let Op::Linear(op) = &case.op else { panic!() };
    let (x, weight) = (floats(case, 0), floats(case, 1));
    let k = columns(case, 0);
    let bias = op.bias.then(|| floats(case, 2));
    let residual = (op.residual == Residual::Added).then(|| floats(case, 2 + usize::from(op.bias)));
    let n = weight.len() / k;
    let mut out = Vec::new();
    for (row, x) in x.chunks_exact(k).enumerate() {
        for (column, weight) in weight.chunks_exact(k).enumerate() {
            let products = x.iter().zip(weight).map(|(x, w)| x * w);
            let start = bias.as_ref().map_or(0.0, |b| b[column]);
            let sum = products.clone().fold(start, |s, p| s + p);
            let magnitude = products.fold(start.abs(), |s, p| s + p.abs());
            let kind = op.activation.unwrap_or(ActivationKind::Identity);
            let (y, bound) = activate(kind, (sum, sum_bound(k, magnitude)));
            let more = residual.as_ref().map_or(0.0, |r| r[row * n + column]);
            out.push((y + more, bound + 2.0 * U * (y.abs() + more.abs())));
        }
    }
    out
}

fn attention(case: &Case) -> Vec<Bounded> {
    let Op::Attention(op) = &case.op else { panic!() };
    let [q, k, v] = [0, 1, 2].map(|operand| (floats(case, operand), columns(case, operand)));
    let d = op.head_dim;
    let mut out = vec![(0.0, 0.0); case.counts.tokens * op.heads * d];
    let bounds = case.operands[4].integers();
    let table = case.operands.get(5).map(|table| (table.floats(), columns(case, 5)));
    for (number, text) in case.offsets.windows(2).enumerate() {
        let (first, end) = (bounds[number / op.shared_by], bounds[number / op.shared_by + 1]);
        let length = (end - first) as usize;
        for i in text[0] as usize..text[1] as usize {
            let local = i as i64 - i64::from(text[0]);
            let place = if op.align_end { local + length as i64 - i64::from(text[1] - text[0]) } else { local };
            let global = |place: i64| (0..i64::from(op.global_tokens)).contains(&place);
            let near = |j: i64| op.window == 0 || (place - j).abs() <= i64::from(op.window);
            // A key that is hidden is not touched.
            let seen = |j: i64| (near(j) || global(place) || global(j)) && (!op.causal || j <= place);
            let keys: Vec<usize> = (0..length).filter(|j| seen(*j as i64)).map(|j| first as usize + j).collect();
            let bias = |j: usize, head: usize| {
                table.as_ref().map_or(0.0, |(table, columns)| {
                    let (reach, distance) = (*columns as i64 / 2, (j - first as usize) as i64 - place);
                    let row = (number * op.heads + head) % (table.len() / columns);
                    f64::from(table[row * columns + (distance.clamp(-reach, reach) + reach) as usize])
                })
            };
            for head in 0..op.heads {
                let group = head * op.kv_heads / op.heads;
                let row = |(x, stride): &(Vec<f64>, usize), token, column| x[token * stride + column..][..d].to_vec();
                let query = row(&q, i, op.q_column + head * d);
                let (mut scores, mut error) = (Vec::new(), 0.0f64);
                for &j in &keys {
                    let key = row(&k, j, op.k_column + group * d);
                    let terms = query.iter().zip(&key).map(|(a, b)| f64::from(op.scale) * a * b);
                    error = error.max(sum_bound(d, terms.clone().map(f64::abs).sum()));
                    let score = terms.sum::<f64>() + bias(j, head);
                    error += if table.is_some() { 2.0 * U * score.abs() } else { 0.0 };
                    scores.push(score);
                }
                let most = scores.iter().fold(f64::NEG_INFINITY, |m, s| if s.is_nan() { *s } else { m.max(*s) });
                let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
                let total: f64 = weights.iter().sum();
                for column in 0..d {
                    let value = |j: usize| v.0[j * v.1 + op.v_column + group * d + column];
                    let terms = || keys.iter().zip(&weights).map(|(j, w)| w / total * value(*j));
                    let (sum, magnitude) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
                    // An error e of the scores changes every weight by a factor of at most exp(2 e).
                    let bound = magnitude * (2.0 * error).exp_m1() + sum_bound(keys.len() + 8, magnitude);
                    out[(i * op.heads + head) * d + column] = (sum, bound);
                }
            }
        }
    }
    out
}

fn axes(case: &Case, operand: usize) -> Vec<usize> {
    case.operands[operand].shape().0.iter().map(|dim| dim.size(case.counts)).collect()
}

fn matmul(case: &Case, op: &Matmul) -> Vec<Bounded> {
    let (a, b) = (floats(case, 0), floats(case, 1));
    let (a_axes, b_axes) = (axes(case, 0), axes(case, 1));
    let last = |axes: &[usize], turned: bool| {
        let (first, second) = (axes[axes.len() - 2], axes[axes.len() - 1]);
        if turned { (second, first) } else { (first, second) }
    };
    let ((m, k), (_, n)) = (last(&a_axes, op.transpose_a), last(&b_axes, op.transpose_b));
    let batches: usize = a_axes[..a_axes.len() - 2].iter().product();
    let mut out = Vec::new();
    for batch in 0..batches {
        let a = &a[batch * m * k..];
        let b = if b_axes.len() == 2 { &b[..] } else { &b[batch * k * n..] };
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let terms = (0..k).map(|l| {
                let a = if op.transpose_a { a[l * m + i] } else { a[i * k + l] };
                f64::from(op.scale) * a * if op.transpose_b { b[j * k + l] } else { b[l * n + j] }
            });
            out.push((terms.clone().sum(), sum_bound(k, terms.map(f64::abs).sum())));
        }
    }
    out
}

fn attention_scores(case: &Case, scale: f64) -> Vec<Bounded> {
    let (q, k) = (floats(case, 0), floats(case, 1));
    let (q_axes, k_axes) = (axes(case, 0), axes(case, 1));
    let (&[b, s, h, d], &[_, keys, g, _]) = (&q_axes[..], &k_axes[..]) else { panic!("four axes each") };
    let mut out = Vec::new();
    for row in 0..b * h * s {
        let (item, head, i) = (row / (h * s), row / s % h, row % s);
        for j in 0..keys {
            let query = &q[((item * s + i) * h + head) * d..][..d];
            let key = &k[((item * keys + j) * g + head * g / h) * d..][..d];
            let terms = query.iter().zip(key).map(|(a, b)| scale * a * b);
            out.push((terms.clone().sum(), sum_bound(d, terms.map(f64::abs).sum())));
        }
    }
    out
}

fn attention_mask(case: &Case, op: &AttentionMask) -> Vec<Bounded> {
    let [_, h, s, keys] = axes(case, 0)[..] else { panic!() };
    let mask = case.operands.get(1).map(|mask| mask.floats());
    let hidden = |place: usize| {
        let (row, j) = (place / keys, place % keys);
        op.causal && j > row % s || mask.is_some_and(|mask| mask[row / (h * s) * keys + j] == 0.0)
    };
    let add = |(place, x): (usize, f64)| {
        let y = if hidden(place) { x + f64::from(op.mask_value) } else { x };
        (y, if y.is_finite() && y != x { U * y.abs() } else { 0.0 })
    };
    floats(case, 0).into_iter().enumerate().map(add).collect()
}

fn rope(case: &Case) -> Vec<Bounded> {
    let [x, cos, sin] = [0, 1, 2].map(|operand| floats(case, operand));
    let [_, _, heads, d] = axes(case, 0)[..] else { panic!() };
    let half = d / 2;
    let pair = |place: usize| {
        let (row, column) = (place / d, place % half);
        let angle = (row / heads * half + column) % cos.len();
        let (x1, x2) = (x[row * d + column], x[row * d + half + column]);
        let (a, b) = if place % d < half { (x1, -x2) } else { (x2, x1) };
        let (a, b) = (a * cos[angle], b * sin[angle]);
        (a + b, 3.0 * U * (a.abs() + b.abs()))
    };
    (0..x.len()).map(pair).collect()
}

fn embedding_sum(case: &Case) -> Vec<Bounded> {
    let columns = columns(case, 1);
    let mut out = vec![(0.0, 0.0); case.counts.tokens * columns];
    for (place, pair) in case.operands.chunks_exact(2).enumerate() {
        for (row, id) in pair[0].integers().iter().enumerate() {
            let table = &pair[1].floats()[*id as usize * columns..][..columns];
            for (sum, value) in out[row * columns..].iter_mut().zip(table) {
                sum.0 += f64::from(*value);
                sum.1 += 4.0 * U * sum.0.abs();
                // Further tables are added to what three have been stored as.
                sum.1 += if place % 3 == 2 { narrowing(case.stored, sum.0.abs() + sum.1) } else { 0.0 };
            }
        }
    }
    out
}

fn layer_norm(case: &Case, eps: f64) -> Vec<Bounded> {
    let [x, weight, bias] = [0, 1, 2].map(|operand| floats(case, operand));
    let n = columns(case, 0);
    let mut out = Vec::new();
    for row in x.chunks_exact(n) {
        let mean = row.iter().sum::<f64>() / n as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        let deviation = (variance + eps).sqrt();
        // The mean is off by this; the variance, and so the scale, by a few units more.
        let shift = sum_bound(n, row.iter().map(|x| x.abs()).sum::<f64>() / n as f64);
        for ((x, weight), bias) in row.iter().zip(&weight).zip(&bias) {
            let scaled = (x - mean) / deviation * weight;
            let relative = sum_bound(n, 1.0) + shift / deviation;
            let bound = shift / deviation * weight.abs() + relative * scaled.abs() + 4.0 * U * bias.abs();
            out.push((scaled + bias, bound));
        }
    }
    out
}

fn rms_norm(case: &Case, eps: f64) -> Vec<Bounded> {
    let [x, weight] = [0, 1].map(|operand| floats(case, operand));
    let n = columns(case, 0);
    let mut out = Vec::new();
    for row in x.chunks_exact(n) {
        let root = (row.iter().map(|x| x * x).sum::<f64>() / n as f64 + eps).sqrt();
        out.extend(row.iter().zip(&weight).map(|(x, w)| (x / root * w, sum_bound(n, (x / root * w).abs()))));
    }
    out
}

/// The gradients of `layer_norm` (`centred`) and `rms_norm`.
fn norm_backward(case: &Case, eps: f64, centred: bool) -> Vec<Bounded> {
    let [g, x, weight] = [0, 1, 2].map(|operand| floats(case, operand));
    let n = columns(case, 0);
    let count = n as f64;
    let mut out = Vec::new();
    for (g, x) in g.chunks_exact(n).zip(x.chunks_exact(n)) {
        let mean = if centred { x.iter().sum::<f64>() / count } else { 0.0 };
        let deviation = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count + eps).sqrt();
        let unit: Vec<f64> = x.iter().map(|x| (x - mean) / deviation).collect();
        let h: Vec<f64> = g.iter().zip(&weight).map(|(g, w)| g * w).collect();
        let mean_h = if centred { h.iter().sum::<f64>() / count } else { 0.0 };
        let product = h.iter().zip(&unit).map(|(h, u)| h * u).sum::<f64>() / count;
        let size_h = h.iter().map(|h| h.abs()).sum::<f64>() / count;
        let sizes = h.iter().zip(&unit).map(|(h, u)| (h * u).abs()).sum::<f64>() / count;
        // The mean's error, in units of the deviation, and that of what is centred about it.
        let shift =
            if centred { sum_bound(n, x.iter().map(|x| x.abs()).sum::<f64>() / count) / deviation } else { 0.0 };
        let most = x.iter().fold(0f64, |m, x| m.max(x.abs())) / deviation;
        let relative = sum_bound(n, 1.0) + shift + 2.0 * U * most;
        for (h, u) in h.iter().zip(&unit) {
            let parts = h.abs() + size_h;
            let bound = 2.0 * relative * (parts + (1.0 + u.abs()) * (sizes + parts * shift)) / deviation;
            out.push(((h - mean_h - u * product) / deviation, bound));
        }
    }
    out
}

/// e^(x - max) of what is kept, over their sum.
fn softmax(case: &Case) -> Vec<Bounded> {
    let x = floats(case, 0);
    let n = columns(case, 0);
    let keep = case.operands.get(1).map(|keep| keep.integers());
    let kept = |column: usize| keep.is_none_or(|keep| keep[column] != 0);
    let mut out = Vec::new();
    for row in x.chunks_exact(n) {
        let values: Vec<f64> = row.iter().enumerate().filter(|(c, _)| kept(*c)).map(|(_, x)| *x).collect();
        let most = values.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
        let total: f64 = values.iter().map(|x| (x - most).exp()).sum();
        for (column, x) in row.iter().enumerate() {
            let power = if kept(column) { (x - most).exp() } else { 0.0 };
            let y = if values.is_empty() { 0.0 } else { power / total };
            // exp of a difference that is off by a unit; results below the normal numbers may be 0.
            let units = 2.0 * U * (5.0 + 3.0 * (most - x).abs().min(110.0));
            out.push((y, y * (units + sum_bound(n, 1.0)) + f64::from(f32::MIN_POSITIVE)));
        }
    }
    out
}

fn softmax_backward(case: &Case) -> Vec<Bounded> {
    let [g, p] = [0, 1].map(|operand| floats(case, operand));
    let n = columns(case, 0);
    let mut out = Vec::new();
    for (g, p) in g.chunks_exact(n).zip(p.chunks_exact(n)) {
        let products = || g.iter().zip(p).map(|(g, p)| g * p);
        let (sum, size) = (products().sum::<f64>(), products().map(f64::abs).sum::<f64>());
        let bound = |g: f64, p: f64| p.abs() * (sum_bound(n, size) + 8.0 * U * (g.abs() + size));
        out.extend(g.iter().zip(p).map(|(g, p)| (p * (g - sum), bound(*g, *p))));
    }
    out
}

/// A row's logarithm of softmax, its target, and the classes' weights; `None` for a row that is left out.
type Loss = Option<(Vec<f64>, usize)>;

fn logs(case: &Case, first: usize) -> (Vec<Loss>, Vec<f64>) {
    let x = floats(case, first);
    let n = columns(case, first);
    let weight = case.operands.get(first + 2).map_or(vec![1.0; n], |_| floats(case, first + 2));
    let targets = case.operands[first + 1].integers();
    let row = |(x, target): (&[f64], &u32)| {
        let most = x.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
        let sum = x.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
        (*target != u32::MAX).then(|| (x.iter().map(|x| x - most - sum).collect(), *target as usize))
    };
    (x.chunks_exact(n).zip(targets).map(row).collect(), weight)
}

fn cross_entropy(case: &Case, s: f64) -> Vec<Bounded> {
    let (rows, weight) = logs(case, 0);
    let n = weight.len();
    let row = |row: &Loss| {
        let Some((logs, target)) = row else { return (0.0, 0.0) };
        let all: f64 = logs.iter().zip(&weight).map(|(l, w)| l * w).sum();
        let value = -(1.0 - s) * weight[*target] * logs[*target] - if s > 0.0 { s / n as f64 * all } else { 0.0 };
        let size = logs.iter().fold(1f64, |m, l| m.max(l.abs()));
        let most = weight.iter().fold(0f64, |m, w| m.max(w.abs()));
        let units = |w: f64| w * (sum_bound(n, 1.0) + 16.0 * U * size);
        (value, units(weight[*target].abs()) + s * (units(most) + sum_bound(n, most * size)))
    };
    rows.iter().map(row).collect()
}

fn cross_entropy_backward(case: &Case, s: f64) -> Vec<Bounded> {
    let g = floats(case, 0);
    let (rows, weight) = logs(case, 1);
    let n = weight.len();
    let total: f64 = weight.iter().sum();
    let most = weight.iter().fold(0f64, |m, w| m.max(w.abs()));
    let mut out = Vec::new();
    for (row, g) in rows.iter().zip(&g) {
        let Some((logs, target)) = row else {
            out.extend(vec![(0.0, 0.0); n]);
            continue;
        };
        for (class, log) in logs.iter().enumerate() {
            let p = log.exp();
            let hit = if class == *target { 1.0 } else { 0.0 };
            let smooth = if s > 0.0 { s / n as f64 * (p * total - weight[class]) } else { 0.0 };
            let factor = g.abs() * (weight[*target].abs() + s * most);
            let bound = factor * (sum_bound(n, 1.0) + 2.0 * U * (8.0 + 8.0 * log.abs().min(50.0)));
            out.push((g * ((1.0 - s) * weight[*target] * (p - hit) + smooth), bound));
        }
    }
    out
}

fn reduce(case: &Case, op: &Reduce) -> Vec<Bounded> {
    let x = floats(case, 0);
    let [outer, n, inner] = op.axes(&case.operands[0].shape());
    let weights = (case.operands.len() > 1).then(|| floats(case, 1));
    let mut out = Vec::new();
    for (o, c) in (0..outer).flat_map(|o| (0..inner).map(move |c| (o, c))) {
        let weight = |k: usize| weights.as_ref().map_or(1.0, |weights| weights[o * n + k]);
        let terms: Vec<(f64, f64)> = (0..n).map(|k| (weight(k), x[(o * n + k) * inner + c])).collect();
        let sum: f64 = terms.iter().map(|(w, x)| w * x).sum();
        let size: f64 = terms.iter().map(|(w, x)| (w * x).abs()).sum();
        let total = terms.iter().map(|(w, _)| w).sum::<f64>();
        out.push(match op.kind {
            ReduceKind::Sum => (sum, sum_bound(2 * n, size)),
            ReduceKind::Mean => (sum / total.max(1e-9), sum_bound(2 * n, size / total.max(1e-9))),
            ReduceKind::Max => {
                let larger = |m: f64, x: f64| if m.is_nan() || x.is_nan() { f64::NAN } else { m.max(x) };
                let kept = || terms.iter().filter(|(w, _)| *w > 0.0).map(|(_, x)| *x);
                (if kept().count() == 0 { 0.0 } else { kept().fold(f64::NEG_INFINITY, larger) }, 0.0)
            }
            ReduceKind::Deviation => {
                let mean = sum / n as f64;
                let y = (terms.iter().map(|(_, x)| (x - mean).powi(2)).sum::<f64>() / n as f64).sqrt();
                (y, sum_bound(n, y) + sum_bound(n, size / n as f64))
            }
        });
    }
    out
}

fn embedding_backward(case: &Case) -> Vec<Bounded> {
    let g = floats(case, 0);
    let n = columns(case, 0);
    let (order, starts) = (case.operands[1].integers(), case.operands[2].integers());
    let mut out = Vec::new();
    for bounds in starts.windows(2) {
        let tokens = &order[bounds[0] as usize..bounds[1] as usize];
        for column in 0..n {
            let values = || tokens.iter().map(|t| g[*t as usize * n + column]);
            out.push((values().sum(), sum_bound(tokens.len(), values().map(f64::abs).sum())));
        }
    }
    out
}

fn normalize(case: &Case, eps: f64, floor: Floor) -> Vec<Bounded> {
    let x = floats(case, 0);
    let mut out = Vec::new();
    for row in x.chunks_exact(columns(case, 0)) {
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        let divisor = match floor {
            Floor::Max if norm < eps => eps,
            Floor::Max => norm,
            Floor::Add => norm + eps,
        };
        out.extend(row.iter().map(|x| (x / divisor, sum_bound(row.len(), (x / divisor).abs()))));
    }
    out
}

fn pool(case: &Case, modes: &[PoolMode]) -> Vec<Bounded> {
    let x = floats(case, 0);
    let n = columns(case, 0);
    let first = case.operands[2].integers();
    let mut out = Vec::new();
    for (text, bounds) in case.offsets.windows(2).enumerate() {
        let start = bounds[0] as usize;
        let tokens = (start + first[text] as usize).min(bounds[1] as usize)..bounds[1] as usize;
        for mode in modes {
            for column in 0..n {
                let values: Vec<f64> = tokens.clone().map(|t| x[t * n + column]).collect();
                let empty = if *mode == PoolMode::Max { f64::NEG_INFINITY } else { 0.0 };
                out.push(if values.is_empty() { (empty, 0.0) } else { pooled(*mode, &values, tokens.start - start) });
            }
        }
    }
    out
}

/// One column of a text, of which `skipped` tokens are left out before it.
fn pooled(mode: PoolMode, values: &[f64], skipped: usize) -> Bounded {
    let weight = |i: usize| if mode == PoolMode::WeightedMean { (skipped + i + 1) as f64 } else { 1.0 };
    let sum: f64 = values.iter().enumerate().map(|(i, v)| weight(i) * v).sum();
    let magnitude: f64 = values.iter().enumerate().map(|(i, v)| weight(i) * v.abs()).sum();
    let weights: f64 = (0..values.len()).map(weight).sum();
    let divisor = match mode {
        PoolMode::Cls => return (values[0], 0.0),
        PoolMode::LastToken => return (values[values.len() - 1], 0.0),
        PoolMode::Max => {
            let larger = |m: f64, v: &f64| if m.is_nan() || v.is_nan() { f64::NAN } else { m.max(*v) };
            return (values.iter().fold(f64::NEG_INFINITY, larger), 0.0);
        }
        PoolMode::MeanSqrtLength => weights.sqrt(),
        PoolMode::Mean | PoolMode::WeightedMean => weights,
    };
    (sum / divisor, sum_bound(values.len(), magnitude / divisor))
}
