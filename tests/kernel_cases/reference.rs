//! What each op means, in float64, with the distance float32 may have from it.
//!
//! With u = 2^-24, a sum of n terms in float32, in any order, is off by about `sqrt(n) u` times the sum of magnitudes
//! (errors add like random steps; Higham and Mary 2019); 8 standard deviations are allowed, and two roundings a term
//! for devices without fused multiply-add. Functions add a few units in the last place of their operands' errors.

use grilly::ops::{ActivationKind, AttentionMask, Matmul, Op, PoolMode};

use crate::cases::Case;

/// A value and how far from it a result may be.
type Bounded = (f64, f64);

const U: f64 = 1.0 / (1u64 << 24) as f64;

/// Bound of a sum of `terms` products whose magnitudes sum to `magnitude`.
fn sum_bound(terms: usize, magnitude: f64) -> f64 {
    8.0 * (2.0 * terms as f64 + 4.0).sqrt() * U * magnitude
}

/// The values an op gives on a case's operands.
pub fn run(case: &Case) -> Vec<Bounded> {
    match &case.op {
        Op::Activation(op) => floats(case, 0).into_iter().map(|x| activate(op.kind, (x, 0.0))).collect(),
        Op::Add(_) => {
            let (a, b) = (floats(case, 0), floats(case, 1));
            a.iter().zip(&b).map(|(a, b)| (a + b, U * (a + b).abs())).collect()
        }
        Op::Attention(_) => attention(case),
        Op::AttentionMask(op) => attention_mask(case, op),
        Op::AttentionScores(op) => attention_scores(case, f64::from(op.scale)),
        Op::EmbeddingSum(_) => embedding_sum(case),
        Op::LayerNorm(op) => layer_norm(case, f64::from(op.eps)),
        Op::Linear(_) => linear(case),
        Op::Matmul(op) => matmul(case, op),
        Op::Normalize(op) => normalize(case, f64::from(op.eps)),
        Op::Pool(op) => pool(case, &op.modes),
        Op::Rope(_) => rope(case),
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
    };
    // The factor that x is multiplied with is near 1 + f, f in -1 .. 1: a few units of 1 times x.
    (y, 1.2 * error + 6.0 * U * x.abs().clamp(1e-3, 1e6) + 6.0 * U * y.abs())
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
    let residual = op.residual_operand().map(|place| floats(case, place));
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
    for (text, keys) in case.offsets.windows(2).zip(case.operands[4].integers().windows(2)) {
        for i in text[0] as usize..text[1] as usize {
            // A key that is hidden is not touched.
            let last = if op.causal { keys[1].min(keys[0] + i as u32 - text[0] + 1) } else { keys[1] };
            let keys = keys[0] as usize..last as usize;
            for head in 0..op.heads {
                let group = head * op.kv_heads / op.heads;
                let row = |(x, stride): &(Vec<f64>, usize), token, column| x[token * stride + column..][..d].to_vec();
                let query = row(&q, i, op.q_column + head * d);
                let (mut scores, mut error) = (Vec::new(), 0.0f64);
                for j in keys.clone() {
                    let key = row(&k, j, op.k_column + group * d);
                    let terms = query.iter().zip(&key).map(|(a, b)| f64::from(op.scale) * a * b);
                    error = error.max(sum_bound(d, terms.clone().map(f64::abs).sum()));
                    scores.push(terms.sum::<f64>());
                }
                let most = scores.iter().fold(f64::NEG_INFINITY, |m, s| if s.is_nan() { *s } else { m.max(*s) });
                let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
                let total: f64 = weights.iter().sum();
                for column in 0..d {
                    let value = |j: usize| v.0[j * v.1 + op.v_column + group * d + column];
                    let terms = || keys.clone().zip(&weights).map(|(j, w)| w / total * value(j));
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
    let [b, s, h, d] = axes(case, 0)[..] else { panic!() };
    let [_, keys, g, _] = axes(case, 1)[..] else { panic!() };
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
    for pair in case.operands.chunks_exact(2) {
        for (row, id) in pair[0].integers().iter().enumerate() {
            let table = &pair[1].floats()[*id as usize * columns..][..columns];
            for (sum, value) in out[row * columns..].iter_mut().zip(table) {
                sum.0 += f64::from(*value);
                sum.1 += 4.0 * U * sum.0.abs();
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

fn normalize(case: &Case, eps: f64) -> Vec<Bounded> {
    let x = floats(case, 0);
    let mut out = Vec::new();
    for row in x.chunks_exact(columns(case, 0)) {
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        let divisor = if norm < eps { eps } else { norm };
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
