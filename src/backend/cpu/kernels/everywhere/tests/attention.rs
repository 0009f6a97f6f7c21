use super::super::functions::{canonical, div, mul, parts, settle, tanh};
use super::products::assembled;
use super::{NAN, bits};
use crate::backend::cpu::simd::altered;
use crate::backend::cpu::testing::{Operand, numbers, run_everywhere};
use crate::ops::{Attention, Counts, Dim, Shape};
use crate::quant::everywhere::{NOT_FINITE, Side, integers};

struct Case {
    op: Attention,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    lengths: Vec<usize>,
    /// Biases, or vectors by distance.
    table: Option<(Vec<usize>, Vec<f32>)>,
}

fn row(x: &[f32]) -> (Vec<i32>, i32) {
    let mut q = vec![0; x.len()];
    let exponent = integers(x, &[], Side::Rows, &mut q);
    (q, exponent)
}

/// The settled product of two rows.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, ea), (b, eb)) = (row(a), row(b));
    if ea == NOT_FINITE || eb == NOT_FINITE {
        return f32::NAN;
    }
    settle(assembled(a.iter().zip(&b).map(|(a, b)| i128::from(*a) * i128::from(*b)).sum(), ea + eb - 44))
}

fn shift(x: f32, places: i32) -> f32 {
    if !x.is_finite() {
        x
    } else if places < -126 {
        0.0
    } else {
        settle(x * 2f32.powi(places))
    }
}

/// `x 2^places` to the nearest integer, ties to even, of `x` in 0.5 .. 2.
fn nearest(x: f32, places: i32) -> i128 {
    if places < -60 { 0 } else { (f64::from(x) * 2f64.powi(places)).round_ties_even() as i128 }
}

impl Case {
    fn new(op: Attention, lengths: &[usize]) -> Self {
        let tokens = lengths.iter().sum::<usize>();
        let of = |heads: usize, seed| numbers(tokens * heads * op.head_dim, seed);
        let (q, k, v) = (of(op.heads, 1), of(op.kv_heads, 2), of(op.kv_heads, 3));
        Case { q, k, v, lengths: lengths.to_vec(), table: None, op }
    }

    fn run(&self) -> Vec<f32> {
        let tokens = self.lengths.iter().sum();
        let mut offsets = vec![0u32];
        self.lengths.iter().for_each(|n| offsets.push(offsets.last().unwrap() + *n as u32));
        let of = |heads: usize| Shape::matrix(Dim::Tokens, heads * self.op.head_dim);
        let boundaries = || Operand::Indices(Shape::vector(Dim::Boundaries), &offsets);
        let mut operands = vec![
            Operand::Floats(of(self.op.heads), &self.q),
            Operand::Floats(of(self.op.kv_heads), &self.k),
            Operand::Floats(of(self.op.kv_heads), &self.v),
            boundaries(),
            boundaries(),
        ];
        if let Some((axes, table)) = &self.table {
            operands.push(Operand::Floats(Shape::fixed(axes), table));
        }
        run_everywhere(self.op.clone(), &operands, Counts::new(tokens, self.lengths.len()))
    }

    /// The score of a key of the text that begins with token `start`.
    fn score(&self, start: usize, [i, j]: [usize; 2], [h, g]: [usize; 2]) -> f32 {
        let (op, d) = (&self.op, self.op.head_dim);
        let q = &self.q[((start + i) * op.heads + h) * d..][..d];
        let k = &self.k[((start + j) * op.kv_heads + g) * d..][..d];
        let mut s = dot(q, k);
        if let (Some([a, b]), Some((axes, table))) = (op.distances, &self.table) {
            let reach = axes[0] as i64 / 2;
            let at = ((j as i64 - i as i64).clamp(-reach, reach) + reach) as usize * axes[1] + g * d;
            s = a.map_or(s, |column| s + dot(q, &table[at + column..][..d]));
            s = b.map_or(s, |column| s + dot(k, &table[at + column..][..d]));
        }
        s = mul(settle(s), op.scale);
        if op.soft_cap > 0.0 {
            s = mul(op.soft_cap, tanh(div(settle(s), op.soft_cap)));
        }
        if let (true, Some((axes, table))) = (op.bias, &self.table) {
            let reach = axes[1] as i64 / 2;
            s += settle(table[h * axes[1] + ((j as i64 - i as i64).clamp(-reach, reach) + reach) as usize]);
        }
        s
    }

    /// One query and head as the definition says, key by key.
    fn reference(&self, start: usize, length: usize, i: usize, h: usize) -> Vec<f32> {
        let (op, d) = (&self.op, self.op.head_dim);
        let g = h * op.kv_heads / op.heads;
        let sight = op.sight(i as i64, length);
        let value = |j: usize| row(&self.v[((start + j) * op.kv_heads + g) * d..][..d]);
        let (mut most, mut l, mut o, mut broken) = (-(1 << 30), 0.0f32, vec![0.0f32; d], false);
        let scores = (0..length).filter(|j| *j < sight.leading || sight.near.contains(j));
        let scores = scores.map(|j| (j, self.score(start, [i, j], [h, g]))).filter(|(_, s)| *s != f32::NEG_INFINITY);
        let scores: Vec<(usize, f32)> = scores.collect();
        // Relative to the largest where that lies beyond 2^20.
        let largest = scores.iter().map(|(_, s)| *s).reduce(f32::max).unwrap_or(0.0).clamp(f32::MIN, f32::MAX);
        let reference = if largest.abs() > 1_048_576.0 { largest } else { 0.0 };
        for block in (0..length).step_by(64) {
            let seen = scores.iter().filter(|(j, _)| (block..block + 64).contains(j));
            let seen: Vec<(usize, f32, i32)> = seen
                .map(|(j, s)| {
                    broken |= s.is_nan() || value(*j).1 == NOT_FINITE;
                    let (e, n) = parts(*s - reference);
                    (*j, e, n)
                })
                .collect();
            let Some(own) = seen.iter().map(|(_, _, n)| *n).max() else { continue };
            if broken {
                continue;
            }
            let all = own.max(most);
            let units: i128 = seen.iter().map(|(_, e, n)| nearest(*e, n - own + 30)).sum();
            l = shift(l, most - all) + shift(units as f32 * 2f32.powi(-30), own - all);
            let carried = |e: f32| ((e.to_bits() as i32 + 65_793) >> 23) - 127;
            let valued = seen.iter().filter(|(j, ..)| value(*j).0.iter().any(|q| *q != 0));
            let most_of = valued.clone().map(|(j, e, n)| n + value(*j).1 + carried(*e)).max();
            for (d, o) in o.iter_mut().enumerate() {
                let weight = |(j, e, n): &(usize, f32, i32)| {
                    nearest(*e, n + value(*j).1 + 22 - most_of.unwrap()) * i128::from(value(*j).0[d])
                };
                let sum = valued.clone().map(weight).sum();
                *o = shift(*o, most - all) + settle(assembled(sum, most_of.unwrap_or(0) - 44 - all));
            }
            most = all;
        }
        if broken {
            return vec![f32::from_bits(NAN); d];
        }
        let factor = div(1.0, l);
        o.iter().map(|o| if l == 0.0 { 0.0 } else { canonical(mul(*o, factor)) }).collect()
    }

    fn check(&self, what: &str) {
        let (found, d, mut start) = (self.run(), self.op.head_dim, 0);
        for length in &self.lengths {
            for at in 0..length * self.op.heads {
                let (i, h) = (at / self.op.heads, at % self.op.heads);
                let expected = self.reference(start, *length, i, h);
                let own = &found[((start + i) * self.op.heads + h) * d..][..d];
                assert_eq!(bits(own), bits(&expected), "{what}: query {i} of {length}, head {h}: {own:?} {expected:?}");
            }
            start += length;
        }
    }
}

fn op(heads: usize, kv_heads: usize, head_dim: usize) -> Attention {
    Attention { heads, kv_heads, head_dim, scale: 1.0 / (head_dim as f32).sqrt(), ..Attention::default() }
}

#[test]
fn queries_have_what_the_definition_says() {
    Case::new(op(2, 2, 32), &[3, 1, 0, 17]).check("short texts");
    Case::new(op(2, 1, 20), &[63, 64, 65, 130]).check("blocks of keys");
    Case::new(op(1, 1, 131), &[5]).check("long heads");
    for (causal, window, global_tokens) in [(true, 0, 0), (false, 5, 0), (true, 70, 2), (false, 3, 1)] {
        let op = Attention { causal, window, global_tokens, ..op(2, 1, 8) };
        Case::new(op, &[150, 4]).check("hidden keys");
    }
    let mut case = Case::new(Attention { soft_cap: 2.0, bias: true, ..op(2, 2, 8) }, &[70, 3]);
    case.table = Some((vec![2, 7], numbers(14, 9)));
    case.check("cap and biases");
    for distances in [[Some(0), Some(16)], [Some(16), None], [None, Some(0)]] {
        let mut case = Case::new(Attention { distances: Some(distances), ..op(2, 2, 8) }, &[70, 3]);
        case.table = Some((vec![11, 32], numbers(11 * 32, 9)));
        case.check("distances");
    }
}

#[test]
fn extreme_scores_and_values_are_as_the_definition_says() {
    for (by_score, by_value) in [(60.0f32, 1.0f32), (1e4, 1e-30), (1e19, 1e30), (1e-25, 3e38), (1.0, 1e-38)] {
        for causal in [false, true] {
            let mut case = Case::new(Attention { causal, ..op(1, 1, 4) }, &[70, 130]);
            case.q.iter_mut().for_each(|x| *x *= by_score);
            case.v.iter_mut().enumerate().for_each(|(i, x)| *x *= if i / 4 % 3 == 0 { by_value } else { 1.0 });
            case.v[4 * 30..4 * 33].fill(0.0);
            case.check(&format!("{by_score} {by_value}"));
        }
    }
}

#[test]
fn what_is_not_finite_matters_to_those_who_see_it() {
    let mut case = Case::new(Attention { causal: true, ..op(1, 1, 4) }, &[100]);
    case.v[4 * 70 + 1] = f32::INFINITY;
    case.check("a value");
    case.k[4 * 40 + 1] = f32::NAN;
    case.check("a key");
    case.q[4 * 20] = f32::NEG_INFINITY;
    case.check("a query");
    let y = case.run();
    assert!(y[..80].iter().all(|y| y.is_finite()) && y[80..84].iter().all(|y| y.to_bits() == NAN));
    assert!(y[84..160].iter().all(|y| y.is_finite()) && y[160..].iter().all(|y| y.to_bits() == NAN));
}

#[test]
fn a_text_has_the_same_bits_in_any_batch_and_whatever_is_set() {
    let case = Case::new(op(3, 1, 16), &[90, 5, 33]);
    let all = case.run();
    assert_eq!(bits(&altered(|| case.run())), bits(&all));
    let (q, kv) = (48, 16);
    let alone = Case {
        op: case.op.clone(),
        q: case.q[90 * q..95 * q].to_vec(),
        k: case.k[90 * kv..95 * kv].to_vec(),
        v: case.v[90 * kv..95 * kv].to_vec(),
        lengths: vec![5],
        table: None,
    };
    assert_eq!(bits(&alone.run()), bits(&all[90 * q..95 * q]));
}
