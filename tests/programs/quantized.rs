//! Rows quantised to 8-bit integers, multiplied by a matrix of such with exact sums, and scaled back.

use grilly::array::{Array, Program};
use grilly::dtype::DType;
use grilly::graph::Graph;
use grilly::ops::{
    ActivationKind, Cast, Counts, Dim, IntegerLinear, QuantizeKind, QuantizeRows, QuantizedLinear, Residual, Shape,
};

use crate::{assert_valid, engines, floats, numbers, read, turn};

/// Rows, depth and columns: words whole and not, one of each, and a row longer than a workgroup.
const SIZES: &[[usize; 3]] = &[[1, 1, 1], [3, 7, 5], [5, 64, 33], [2, 1030, 9], [4, 130, 1]];

fn bytes_of(array: &Array) -> Vec<i8> {
    array.read().unwrap().into_iter().map(|byte| byte as i8).collect()
}

fn graph([m, k, n]: [usize; 3]) -> Graph {
    let mut graph = Graph::new();
    let x = graph.input("x", Shape::fixed(&[m, k]), DType::F32);
    let weight = graph.input("weight", Shape::fixed(&[n, k]), DType::I8);
    let weight_scale = graph.input("weight_scale", Shape::fixed(&[n]), DType::F32);
    let [q, scale] = graph.apply("quantise", QuantizeRows::default(), &[x]).unwrap()[..] else { panic!() };
    let sums = graph.node("product", IntegerLinear::default(), &[q, weight]).unwrap();
    let y = graph.node("linear", QuantizedLinear::default(), &[q, scale, weight, weight_scale]).unwrap();
    graph.outputs = vec![q, scale, sums, y];
    graph
}

#[test]
fn integers_are_exact_and_floats_are_near() {
    let _turn = turn();
    for engine in engines("integers_are_exact_and_floats_are_near") {
        for &[m, k, n] in SIZES {
            let name = format!("{}: {m} x {k} x {n}", engine.device());
            let mut x = numbers(7, m * k);
            x[0] *= 1000.0;
            // A row of zeros has a scale, too.
            x[(m - 1) * k..].fill(if m > 1 { 0.0 } else { 0.25 });
            let weight: Vec<i8> = (0..n * k).map(|i| ((i * 37 + i / 5) % 256) as u8 as i8).collect();
            let weight_scale: Vec<f32> = numbers(9, n).into_iter().map(|x| 2.0 + x).collect();
            let given_x = floats(&engine, &[m, k], &x);
            let given_weight = engine.upload(DType::I8, &[n, k], bytemuck::cast_slice(&weight)).unwrap();
            let given_scale = floats(&engine, &[n], &weight_scale);
            let program = Program::new(&engine, graph([m, k, n]), Counts::default(), &[]).unwrap();
            let outputs = program.run(&[&given_x, &given_weight, &given_scale]).unwrap();
            let types: Vec<DType> = outputs.iter().map(Array::dtype).collect();
            assert_eq!(types, [DType::I8, DType::F32, DType::I32, DType::F32]);

            let scale = read(&outputs[1]);
            for (row, found) in x.chunks_exact(k).zip(&scale) {
                let expected = 127.0 / f64::from(row.iter().fold(1e-5f32, |most, x| most.max(x.abs())));
                assert_eq!(*found, expected as f32, "{name}: correctly rounded on every device");
            }
            // By the scales that were found, all that follows is exact.
            let q: Vec<i8> =
                (0..m * k).map(|i| (x[i] * scale[i / k]).round_ties_even().clamp(-128.0, 127.0) as i8).collect();
            assert_eq!(bytes_of(&outputs[0]), q, "{name}");
            let product = |i: usize| {
                let (row, column) = (&q[i / n * k..][..k], &weight[i % n * k..][..k]);
                row.iter().zip(column).map(|(q, w)| i64::from(*q) * i64::from(*w)).sum::<i64>()
            };
            let expected: Vec<i64> = (0..m * n).map(product).collect();
            let bytes = outputs[2].read().unwrap();
            let sums = bytes.chunks_exact(4).map(|b| i64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])));
            assert_eq!(sums.collect::<Vec<_>>(), expected, "{name}");
            for (i, y) in read(&outputs[3]).into_iter().enumerate() {
                let exact = expected[i] as f64 / (f64::from(scale[i / n]) * f64::from(weight_scale[i % n]));
                // Two reciprocals and two products, each rounded, and a conversion.
                assert!((f64::from(y) - exact).abs() <= 6.0 * 2f64.powi(-23) * exact.abs(), "{name}: {y}, {exact}");
            }
        }
    }
    assert_valid();
}

#[test]
fn what_is_not_int8_is_refused() {
    let mut graph = Graph::new();
    let wide = graph.input("weight", Shape::fixed(&[2, 1 << 17]), DType::I8);
    let q = graph.input("q", Shape::fixed(&[1, 1 << 17]), DType::I8);
    let error = graph.node("product", IntegerLinear::default(), &[q, wide]).unwrap_err().to_string();
    assert!(error.contains("K is 131072"), "{error}");
    for engine in engines("what_is_not_int8_is_refused") {
        let x = floats(&engine, &[2, 4], &[0.0; 8]);
        let error = engine.call(&IntegerLinear::default().into(), &[&x, &x]).unwrap_err().to_string();
        assert!(error.contains("integer_linear: q is float32, expected int8"), "{error}");
    }
    assert_valid();
}

/// Quantised rows that the batch counts, times a matrix: in `stored`, where results are.
fn counted([k, n]: [usize; 2], pairs: bool, stored: DType) -> Graph {
    let mut graph = Graph::new();
    let rows = |columns| Shape::matrix(Dim::Tokens, columns);
    let x = graph.input("x", rows(k), DType::F32);
    let residual = graph.input("residual", rows(n), DType::F32);
    let weight = graph.input("weight", Shape::fixed(&[n, k]), DType::I8);
    let weight_scale = graph.input("weight_scale", Shape::fixed(&[n]), DType::F32);
    let bias = graph.input("bias", Shape::fixed(&[n]), DType::F32);
    let [x, residual] = match stored {
        DType::F32 => [x, residual],
        to => [x, residual].map(|id| graph.node("narrow", Cast { to }, &[id]).unwrap()),
    };
    let kind = if pairs { QuantizeKind::Affine } else { QuantizeKind::Absmax };
    let quantise = QuantizeRows { kind, pairs, ..QuantizeRows::default() };
    let [q, scale] = graph.apply("quantise", quantise, &[x]).unwrap()[..] else { panic!() };
    let sums = graph.node("sums", IntegerLinear::default(), &[q, weight]).unwrap();
    let activation = Some(ActivationKind::Silu);
    let product = QuantizedLinear { pairs, bias: true, activation, residual: Residual::Added, ..Default::default() };
    let y = graph.node("product", product, &[q, scale, weight, weight_scale, bias, residual]).unwrap();
    graph.values[y.0].dtype = stored;
    let y = if stored == DType::F32 { y } else { graph.node("wide", Cast::default(), &[y]).unwrap() };
    graph.outputs = vec![q, scale, sums, y];
    graph
}

#[test]
fn rows_that_a_batch_counts_give_what_known_rows_give() {
    let _turn = turn();
    for engine in engines("rows_that_a_batch_counts_give_what_known_rows_give") {
        for (sizes, pairs, stored) in [
            ([7, 5], false, DType::F32),
            ([64, 36], true, DType::F32),
            ([33, 9], true, DType::F32),
            ([64, 36], false, DType::F16),
            ([1028, 12], true, DType::Bf16),
        ] {
            let ([k, n], most) = (sizes, 13);
            let name = format!("{}: {k} x {n} {pairs} {}", engine.device(), stored.name());
            let (mut x, residual) = (numbers(7, most * k), numbers(8, most * n));
            x[k..2 * k].fill(0.0);
            x[3 * k + 1] = f32::INFINITY;
            let weight: Vec<i8> = (0..n * k).map(|i| ((i * 37 + i / 5) % 256) as u8 as i8).collect();
            let weight_scale: Vec<f32> = numbers(9, n).into_iter().map(|x| 20.0 + x).collect();
            let weights = [
                engine.upload(DType::I8, &[n, k], bytemuck::cast_slice(&weight)).unwrap(),
                floats(&engine, &[n], &weight_scale),
                floats(&engine, &[n], &numbers(10, n)),
            ];
            let program = Program::new(&engine, counted(sizes, pairs, stored), Counts::new(most, 1), &[]).unwrap();
            let run = |rows: usize| {
                let given =
                    [floats(&engine, &[rows, k], &x[..rows * k]), floats(&engine, &[rows, n], &residual[..rows * n])];
                let given: Vec<&Array> = given.iter().chain(&weights).collect();
                let outputs = program.run(&given).unwrap();
                outputs.iter().map(|output| output.read().unwrap()).collect::<Vec<_>>()
            };
            let all = run(most);
            for rows in [1, 2, 5] {
                for (some, all) in run(rows).iter().zip(&all) {
                    assert_eq!(some[..], all[..all.len() / most * rows], "{name}: {rows} rows alone");
                }
            }
            let word = |bytes: &[u8], at: usize| f32::from_le_bytes(bytes[4 * at..][..4].try_into().unwrap());
            let each = if pairs { 2 } else { 1 };
            let mut rounded = [x.clone(), residual.clone()];
            rounded.iter_mut().for_each(|values| stored.round(values));
            let unit = match stored {
                DType::F16 => 2f64.powi(-11),
                DType::Bf16 => 2f64.powi(-8),
                _ => 2f64.powi(-23),
            };
            for row in 0..most {
                let scale = word(&all[1], each * row);
                let zero = if pairs { word(&all[1], 2 * row + 1) as i64 } else { 0 };
                assert_eq!(scale.is_nan(), row == 3, "{name}");
                let q: Vec<i64> = all[0][row * k..][..k].iter().map(|byte| i64::from(*byte as i8)).collect();
                for (q, x) in q.iter().zip(&rounded[0][row * k..]) {
                    let expected = (x * scale).round_ties_even() as i64 + zero;
                    assert_eq!(*q, if scale.is_nan() { 0 } else { expected.clamp(-128, 127) }, "{name}");
                }
                for column in 0..n {
                    let weight = weight[column * k..][..k].iter().map(|w| i64::from(*w));
                    let sum: i64 = q.iter().zip(weight.clone()).map(|(q, w)| q * w).sum();
                    let at = row * n + column;
                    let found = i32::from_le_bytes(all[2][4 * at..][..4].try_into().unwrap());
                    assert_eq!(i64::from(found), sum, "{name}");
                    let exact = (sum - zero * weight.sum::<i64>()) as f64;
                    let x =
                        exact / f64::from(weight_scale[column]) / f64::from(scale) + f64::from(numbers(10, n)[column]);
                    let y = x / (1.0 + (-x).exp()) + f64::from(rounded[1][at]);
                    let found = f64::from(word(&all[3], at));
                    let near = 16.0 * 2f64.powi(-23) * (x.abs() + 1.0) + unit * y.abs();
                    assert!((found - y).abs() <= near || found.is_nan() && y.is_nan(), "{name}: {found}, {y}");
                }
            }
        }
    }
    assert_valid();
}
