use super::{NAN, bits, of_rows};
use crate::backend::cpu::simd::altered;
use crate::backend::cpu::testing::{Operand, assert_close, erf, numbers, run_everywhere};
use crate::ops::{
    Activation, ActivationKind, Binary, BinaryKind, Counts, Dim, EmbeddingSum, Floor, Gated, LayerNorm, Normalize, Op,
    Pool, PoolMode, Reduce, ReduceKind, RmsNorm, Rope, Shape, Softmax,
};

const EPS: f64 = f32::EPSILON as f64;

/// The value in float64, and what its error is relative to.
fn reference(kind: ActivationKind, x: f64) -> (f64, f64) {
    use ActivationKind::*;
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let y = match kind {
        Identity => x,
        // Absolute where the tail is small.
        GeluErf => return (x * (1.0 + erf(x / 2f64.sqrt())) / 2.0, x.abs().max(1e-30)),
        GeluTanh => {
            let twice = 1.5957691216057308 * (x + 0.044715 * x * x * x);
            let y = x * sigmoid(twice);
            return (y, y.abs() * (1.0 + twice.abs()));
        }
        Relu => x.max(0.0),
        Silu => x * sigmoid(x),
        Tanh => x.tanh(),
        Sigmoid => sigmoid(x),
        QuickGelu => return (x * sigmoid(1.702 * x), (x * sigmoid(1.702 * x)).abs() * (1.0 + x.abs())),
        Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        LeakyRelu => {
            if x < 0.0 {
                0.25 * x
            } else {
                x
            }
        }
        Roswish => return ((x + 0.25) * sigmoid(2.0 * x) - 0.125, (x.abs() + 1.0) * (1.0 + x.abs())),
        Sqrt => x.sqrt(),
        Exp => x.exp(),
        Log => x.ln(),
        // Relative to x where the cosine is small.
        Gcu => return (x * x.cos(), x.abs()),
    };
    (y, y.abs())
}

const KINDS: [ActivationKind; 15] = {
    use ActivationKind::*;
    [
        Identity, GeluErf, GeluTanh, Relu, Silu, Tanh, Sigmoid, QuickGelu, Softplus, LeakyRelu, Roswish, Sqrt, Exp,
        Log, Gcu,
    ]
};

/// Numbers of all sizes and signs.
fn all_sizes() -> Vec<f32> {
    let mut x: Vec<f32> = (-2_000..=2_000).map(|i| i as f32 * 6.1e-3).collect();
    x.extend((-99..127).flat_map(|e| [2f32.powi(e), -(2f32.powi(e)), 1.7 * 2f32.powi(e)]));
    x.extend(numbers(1001, 5));
    x
}

#[test]
fn activations_are_near_float64() {
    let x = all_sizes();
    for kind in KINDS {
        let op = Activation { kind, a: 0.25, b: 2.0 };
        let y = of_rows(op.clone(), 1, &x);
        assert_eq!(bits(&altered(|| of_rows(op, 1, &x))), bits(&y), "{kind:?}");
        for (x, y) in x.iter().zip(&y) {
            let (expected, size) = reference(kind, f64::from(*x));
            let small = expected.abs() < 2f64.powi(-100);
            let end = expected.is_nan() || expected.abs() >= 3.4e38 || small || *x <= -13.0 || x.abs() > 1e17;
            let near = (f64::from(*y) - expected).abs() <= 4.0 * EPS * size + 1e-30;
            assert!(near || end, "{kind:?}: {x:e} gives {y:e}, expected {expected:e}");
            assert!(*y == 0.0 || y.is_nan() || y.abs() >= 2f32.powi(-100), "{kind:?}: {x:e} gives {y:e}");
        }
    }
}

#[test]
fn special_numbers_have_one_result() {
    use ActivationKind::*;
    let x = [f32::NAN, -f32::NAN, f32::NEG_INFINITY, f32::INFINITY, 0.0, -0.0, 1e-31, -1e-31, 1e-40];
    let inf = f32::INFINITY.to_bits();
    for (kind, expected) in [
        (Identity, [0xff80_0000, inf, 0]),
        (GeluErf, [NAN, inf, 0]),
        (GeluTanh, [NAN, inf, 0]),
        (Relu, [0, inf, 0]),
        (Silu, [NAN, inf, 0]),
        (Tanh, [(-1f32).to_bits(), 1f32.to_bits(), 0]),
        (Sigmoid, [0, 1f32.to_bits(), 0.5f32.to_bits()]),
        (Exp, [0, inf, 1f32.to_bits()]),
        (Sqrt, [NAN, inf, 0]),
        (Log, [NAN, inf, f32::NEG_INFINITY.to_bits()]),
    ] {
        let y = bits(&of_rows(Activation::from(kind), 1, &x));
        let [low, high, zero] = expected;
        assert_eq!(y, [NAN, NAN, low, high, zero, zero, zero, zero, zero], "{kind:?}");
    }
}

#[test]
fn arithmetic_settles_what_it_reads_and_products() {
    let (a, b) = ([1e-20, 3.0, 1e-31, 1.0, f32::INFINITY, -1e-31], [1e-12, 0.5, 1.0, 0.0, f32::INFINITY, 1e-35]);
    for (kind, expected) in [
        (BinaryKind::Add, [1e-20 + 1e-12, 3.5, 1.0, 1.0, f32::INFINITY, 0.0]),
        (BinaryKind::Subtract, [1e-20 - 1e-12, 2.5, -1.0, 1.0, f32::NAN, 0.0]),
        (BinaryKind::Multiply, [0.0, 1.5, 0.0, 0.0, f32::INFINITY, 0.0]),
        (BinaryKind::Divide, [1e-20 / 1e-12, 6.0, 0.0, f32::INFINITY, f32::NAN, f32::NAN]),
    ] {
        let shape = || Shape::vector(Dim::Tokens);
        let operands = [Operand::Floats(shape(), &a), Operand::Floats(shape(), &b)];
        let y = run_everywhere(Binary::from(kind), &operands, Counts::new(6, 1));
        let expected: Vec<u32> = expected.iter().map(|y: &f32| if y.is_nan() { NAN } else { y.to_bits() }).collect();
        assert_eq!(bits(&y), expected, "{kind:?}");
    }
}

/// Rows, some of them unusual, and their norms in float64.
fn rows(n: usize) -> Vec<f32> {
    let mut x = numbers(6 * n, n as u64);
    x[n..2 * n].fill(0.0);
    x[2 * n] = f32::NAN;
    x[3 * n..4 * n].fill(1e-33);
    x[4 * n..5 * n].iter_mut().for_each(|x| *x *= 1e15);
    x
}

#[test]
fn norms_are_near_float64_in_any_batch() {
    for n in [1usize, 7, 63, 64, 65, 384] {
        let (x, w, b) = (rows(n), numbers(n, 8), numbers(n, 9));
        let shape = [n];
        let vector = |of| Operand::Weight(&shape, of);
        let run = |op: Op, x: &[f32], vectors: usize| {
            let mut operands = vec![Operand::Floats(Shape::matrix(Dim::Tokens, n), x), vector(&w), vector(&b)];
            operands.truncate(1 + vectors);
            run_everywhere(op, &operands, Counts::new(x.len() / n, 1))
        };
        for (op, vectors) in [
            (Op::from(LayerNorm { eps: 1e-5 }), 2),
            (RmsNorm { eps: 1e-6 }.into(), 1),
            (Normalize::default().into(), 0),
            (Normalize { eps: 0.5, floor: Floor::Add }.into(), 0),
        ] {
            let y = run(op.clone(), &x, vectors);
            let expected: Vec<f64> = x
                .chunks_exact(n)
                .flat_map(|row| {
                    let row: Vec<f64> = row.iter().map(|x| if x.abs() < 1e-31 { 0.0 } else { f64::from(*x) }).collect();
                    let mean = row.iter().sum::<f64>() / n as f64;
                    let squares = |m: f64| row.iter().map(|x| (x - m) * (x - m)).sum::<f64>();
                    let (variance, mean_square, norm) =
                        (squares(mean) / n as f64, squares(0.0) / n as f64, squares(0.0).sqrt());
                    let y = |(i, x): (usize, &f64)| match &op {
                        Op::LayerNorm(_) => (x - mean) / (variance + 1e-5).sqrt() * f64::from(w[i]) + f64::from(b[i]),
                        Op::RmsNorm(_) => x / (mean_square + 1e-6).sqrt() * f64::from(w[i]),
                        Op::Normalize(Normalize { floor: Floor::Add, .. }) => x / (norm + 0.5),
                        _ => x / if norm < 1e-12 { 1e-12 } else { norm },
                    };
                    row.iter().enumerate().map(y).collect::<Vec<f64>>()
                })
                .collect();
            assert_close(&y, &expected, &format!("{} of {n}", op.name()), |i| EPS * 8.0 * (expected[i].abs() + 2.0));
            assert_eq!(bits(&y[2 * n..3 * n]), vec![NAN; n]);
            assert_eq!(bits(&run(op.clone(), &x[4 * n..5 * n], vectors)), bits(&y[4 * n..5 * n]));
            assert_eq!(bits(&altered(|| run(op, &x, vectors))), bits(&y));
        }
    }
}

#[test]
fn sums_have_64_chains() {
    // A tree over 64 chains loses each small term but the one beside the largest.
    let mut x = vec![0.0f32; 130];
    (x[0], x[64], x[128], x[1], x[33]) = (1.0, 2f32.powi(-24), 2f32.powi(-24), 2f32.powi(-23), 0.0);
    // ((1 + 2^-24) + 2^-24) + 2^-23, rounded each time.
    assert_eq!(super::super::sum([&x], |[x]| x), 1.0 + 2f32.powi(-23));
    (x[64], x[128], x[32], x[96]) = (0.0, 0.0, 2f32.powi(-24), 2f32.powi(-24));
    assert_eq!(super::super::sum([&x], |[x]| x), 1.0 + 2f32.powi(-22));
}

#[test]
fn texts_are_pooled_in_order() {
    let (columns, x) = (5, numbers(9 * 5, 3));
    let (offsets, first) = ([0, 4, 4, 9], [1, 0, 0]);
    use PoolMode::*;
    let modes = vec![Cls, Max, Mean, MeanSqrtLength, WeightedMean, LastToken, Sum];
    let operands = [
        Operand::Floats(Shape::matrix(Dim::Tokens, columns), &x),
        Operand::Indices(Shape::vector(Dim::Boundaries), &offsets),
        Operand::Indices(Shape::vector(Dim::Texts), &first),
    ];
    let y = run_everywhere(Pool { modes: modes.clone() }, &operands, Counts::new(9, 3));
    for (text, tokens) in [(0, 1..4), (1, 4..4), (2, 4..9)] {
        for (place, mode) in modes.iter().enumerate() {
            for c in 0..columns {
                let own = || tokens.clone().map(|t| x[t * columns + c]);
                let sum = own().fold(0.0f32, |sum, x| sum + x);
                let place_of = |t: usize| (t + 1 - if text == 2 { 4 } else { 0 }) as f32;
                let n = tokens.len() as f32;
                let weighted = tokens.clone().fold(0.0f32, |sum, t| sum + place_of(t) * x[t * columns + c]);
                let expected = match mode {
                    _ if n == 0.0 => {
                        if *mode == Max {
                            f32::NEG_INFINITY
                        } else {
                            0.0
                        }
                    }
                    Cls => own().next().unwrap(),
                    Max => own().fold(f32::NEG_INFINITY, f32::max),
                    Mean => sum / n,
                    MeanSqrtLength => sum / n.sqrt(),
                    WeightedMean => weighted / tokens.clone().map(place_of).sum::<f32>(),
                    LastToken => own().next_back().unwrap(),
                    Sum => sum,
                };
                assert_eq!(y[(text * modes.len() + place) * columns + c], expected, "{mode:?} of text {text}");
            }
        }
    }
}

#[test]
fn rows_of_tables_are_added_in_order() {
    let (columns, words, types) = (19, numbers(50 * 19, 1), numbers(2 * 19, 2));
    let word: Vec<u32> = (0..40).map(|i| i * 7 % 50).collect();
    let kind: Vec<u32> = (0..40).map(|i| i % 2).collect();
    let operands = [
        Operand::Indices(Shape::vector(Dim::Tokens), &word),
        Operand::Weight(&[50, 19], &words),
        Operand::Indices(Shape::vector(Dim::Tokens), &kind),
        Operand::Floats(Shape::fixed(&[2, 19]), &types),
    ];
    let y = run_everywhere(EmbeddingSum {}, &operands, Counts::new(40, 1));
    for (at, y) in y.iter().enumerate() {
        let (t, c) = (at / columns, at % columns);
        assert_eq!(*y, words[word[t] as usize * columns + c] + types[kind[t] as usize * columns + c]);
    }
}

#[test]
fn gates_rotations_and_softmaxes_are_near_float64() {
    let x = numbers(40 * 24, 4);
    let y = of_rows(Gated(Activation::from(ActivationKind::Silu)), 24, &x);
    let expected: Vec<f64> = (0..40 * 12)
        .map(|at| {
            let [a, b] = [0, 12].map(|half| f64::from(x[at / 12 * 24 + half + at % 12]));
            a * b / (1.0 + (-b).exp())
        })
        .collect();
    assert_close(&y, &expected, "gated", |i| 4.0 * EPS * expected[i].abs());
    let y = of_rows(Softmax::default(), 24, &x);
    let expected: Vec<f64> = x
        .chunks_exact(24)
        .flat_map(|row| {
            let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
            row.iter().map(move |x| f64::from(*x).exp() / sum).collect::<Vec<_>>()
        })
        .collect();
    assert_close(&y, &expected, "softmax", |i| 8.0 * EPS * expected[i].abs());
    // Two heads of 12 columns, of which 8 are rotated.
    let angles: Vec<f64> = (0..40 * 4).map(|i| f64::from(i) * 0.37).collect();
    let [cos, sin] = [f64::cos, f64::sin].map(|f| angles.iter().map(|a| f(*a) as f32).collect::<Vec<f32>>());
    let table = || Shape::matrix(Dim::Tokens, 4);
    let operands = [
        Operand::Floats(Shape(vec![Dim::Tokens, Dim::Fixed(2), Dim::Fixed(12)]), &x),
        Operand::Floats(table(), &cos),
        Operand::Floats(table(), &sin),
    ];
    let y = run_everywhere(Rope::default(), &operands, Counts::new(40, 1));
    for (at, y) in y.iter().enumerate() {
        let (t, column, head) = (at / 24, at % 12, at / 12 * 12);
        let expected = match column {
            8.. => x[at],
            _ => {
                let (k, [a, b]) = (t * 4 + column % 4, [0, 4].map(|half| x[head + half + column % 4]));
                if column < 4 { a * cos[k] - b * sin[k] } else { b * cos[k] + a * sin[k] }
            }
        };
        assert_eq!(*y, expected, "{at}");
    }
}

#[test]
fn columns_of_an_axis_are_reduced_one_by_one() {
    for sizes in [[3, 70, 2], [2, 2500, 3], [1, 1025, 1], [2, 1024, 1]] {
        reduced(sizes);
    }
}

fn reduced([outer, n, inner]: [usize; 3]) {
    let x = numbers(outer * n * inner, 4);
    let w: Vec<f32> = numbers(outer * n, 5).into_iter().map(|w| w.max(0.0)).collect();
    let shape = || Shape::fixed(&[outer, n, inner]);
    for kind in [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Deviation] {
        for weighted in [false, true] {
            if weighted && kind == ReduceKind::Deviation {
                continue;
            }
            let mut operands = vec![Operand::Floats(shape(), &x)];
            if weighted {
                operands.push(Operand::Floats(Shape::fixed(&[outer, n]), &w));
            }
            let y = run_everywhere(Reduce::along(1, kind), &operands, Counts::default());
            let expected: Vec<f64> = (0..outer * inner)
                .map(|at| {
                    let (o, c) = (at / inner, at % inner);
                    let pairs = || {
                        let pair = |k: usize| (f64::from(x[(o * n + k) * inner + c]), f64::from(w[o * n + k]));
                        (0..n).map(pair).map(|(x, w)| (x, if weighted { w } else { 1.0 }))
                    };
                    let sum_of = pairs().map(|(x, _)| x).sum::<f64>();
                    let (sum, all) = (pairs().map(|(x, w)| x * w).sum::<f64>(), pairs().map(|(_, w)| w).sum::<f64>());
                    match kind {
                        ReduceKind::Sum => sum,
                        ReduceKind::Mean => sum / all.max(1e-9),
                        ReduceKind::Max => pairs().filter(|(_, w)| *w > 0.0).map(|(x, _)| x).fold(f64::MIN, f64::max),
                        ReduceKind::Deviation => {
                            (pairs().map(|(x, _)| (x - sum_of / n as f64).powi(2)).sum::<f64>() / n as f64).sqrt()
                        }
                    }
                })
                .collect();
            let roundings = 4.0 * (n as f64).sqrt().max(10.0);
            let allowed = |i: usize| roundings * EPS * (1.0 + expected[i].abs());
            assert_close(&y, &expected, &format!("{n} {kind:?} {weighted}"), allowed);
        }
    }
}
