//! `y = act((q - zero) W^T / scales + bias) + residual`, sums of integers within a group of columns.

use std::borrow::Cow;

use super::functions::{Floats, Own};
use super::integer_linear::{products, weight};
use crate::backend::cpu::integers::{PackedIntegers, dot};
use crate::backend::cpu::step::Step;
use crate::ops::{Activation, QuantizedLinear, Residual, Scope};
use crate::{Error, Result};

pub(super) fn quantized_linear(step: &Step<'_>, op: &QuantizedLinear, out: &mut [f32]) -> Result<()> {
    with::<Own>(step, op, out)
}

/// The product with floats of a kind.
pub(super) fn with<F: Floats>(step: &Step<'_>, op: &QuantizedLinear, out: &mut [f32]) -> Result<()> {
    let mut own = None;
    let grouped = matches!(op.scope, Scope::Group(_));
    let weight = weight(step, op.levels, 2, !grouped, &mut own)?;
    let n = weight.columns().max(1);
    let residual = match op.residual {
        Residual::None => None,
        Residual::Added => Some(step.floats(4 + usize::from(op.bias))?),
    };
    let finish = Finish {
        op,
        scale: step.floats(1)?,
        factors: match op.scope {
            Scope::Tensor => vec![F::reciprocal(step.floats(3)?[0]); n],
            _ => step.floats(3)?.iter().map(|scale| F::reciprocal(*scale)).collect(),
        },
        bias: op.bias.then(|| step.floats(4)).transpose()?,
        sums: if op.pairs { weight.column_sums() } else { Cow::Borrowed(&[]) },
    };
    if let Scope::Group(group) = op.scope {
        by_groups::<F>(step, weight, &finish, group, out)?;
    } else {
        products(step, weight, out, |row, column, sums, y| {
            let zero = finish.zero(row);
            step.arch.vectorized(inlined!(|| {
                let factors = &finish.factors[column..][..y.len()];
                if zero == 0 {
                    for ((y, sum), factor) in y.iter_mut().zip(sums).zip(factors) {
                        *y = F::product(*sum as f32, *factor);
                    }
                } else {
                    let ones = &finish.sums[column..][..y.len()];
                    for (((y, sum), factor), ones) in y.iter_mut().zip(sums).zip(factors).zip(ones) {
                        *y = F::product((sum - zero * ones) as f32, *factor);
                    }
                }
                finish.rest::<F>(row, column, y);
            }));
            if let Some(kind) = op.activation {
                F::activate(step.arch, &Activation::from(kind), y);
            }
        })?;
    }
    if let Some(residual) = residual {
        step.rows(out, n, 16).vectorized(inlined!(|first, part| {
            let pairs = part.iter_mut().zip(&residual[first * n..]);
            pairs.for_each(|(y, residual)| *y = F::stored(F::read(*y) + F::read(*residual)));
        }));
    }
    Ok(())
}

/// What follows the sums.
struct Finish<'a> {
    op: &'a QuantizedLinear,
    scale: &'a [f32],
    /// The reciprocals of the weight's scales.
    factors: Vec<f32>,
    bias: Option<&'a [f32]>,
    /// Sums of the weight's rows, where there are zeros.
    sums: Cow<'a, [i32]>,
}

impl Finish<'_> {
    fn zero(&self, row: usize) -> i32 {
        if self.op.pairs { self.scale[2 * row + 1] as i32 } else { 0 }
    }

    /// Multiplies sums of a row, from a column on, by the reciprocal of its scale, and adds the bias.
    #[inline(always)]
    fn rest<F: Floats>(&self, row: usize, column: usize, y: &mut [f32]) {
        let factor = F::reciprocal(self.scale[if self.op.pairs { 2 * row } else { row }]);
        match self.bias {
            None => y.iter_mut().for_each(|y| *y = F::stored(F::product(*y, factor))),
            Some(bias) => {
                let pairs = y.iter_mut().zip(&bias[column..]);
                pairs.for_each(|(y, bias)| *y = F::stored(F::product(*y, factor) + F::read(*bias)));
            }
        }
    }
}

/// The same with a scale for each group of a row of the weight.
fn by_groups<F: Floats>(
    step: &Step<'_>,
    weight: &PackedIntegers<'_>,
    finish: &Finish<'_>,
    group: usize,
    out: &mut [f32],
) -> Result<()> {
    let q: &[i8] = bytemuck::cast_slice(step.words(0)?);
    let (n, k) = (weight.columns().max(1), step.shape(0).columns());
    let per_row = k.div_ceil(group);
    if weight.row(0).is_none() && !out.is_empty() {
        return Err(Error::InvalidArgument("quantized_linear: the weight is not in rows".into()));
    }
    step.rows(out, n, 4).vectorized(inlined!(|first, part| {
        for column in 0..n {
            let weight = weight.row(column).unwrap_or(&[]);
            for (row, y) in (first..).zip(part.chunks_exact_mut(n)) {
                let zero = finish.zero(row);
                let groups = q[row * k..][..k].chunks(group).zip(weight.chunks(group));
                let parts = groups.zip(&finish.factors[column * per_row..]);
                y[column] = parts.fold(0.0, |sum, ((q, weight), factor)| {
                    let ones: i32 = if zero == 0 { 0 } else { weight.iter().map(|w| i32::from(*w)).sum() };
                    sum + F::product((dot(q, weight) - zero * ones) as f32, *factor)
                });
            }
        }
        for (row, y) in (first..).zip(part.chunks_exact_mut(n)) {
            finish.rest::<F>(row, 0, y);
        }
    }));
    if let Some(kind) = finish.op.activation {
        let function = Activation::from(kind);
        step.team.rows(out, n, 1 + 4096 / n, |_, part| F::activate(step.arch, &function, part));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::backend::cpu::program::CpuProgram;
    use crate::backend::cpu::simd::Arch;
    use crate::backend::cpu::testing::{Tensors, archs, assert_close, erf, numbers, same_bits};
    use crate::backend::{Executable, Feed, ProgramOptions};
    use crate::dtype::DType;
    use crate::graph::fuse::Fusion;
    use crate::graph::{Graph, Plan};
    use crate::numerics::Numerics;
    use crate::ops::{
        ActivationKind, Counts, Dim, QuantizeKind, QuantizeRows, QuantizedLinear, Residual, Scope, Shape,
    };

    /// Rows of `x` quantised with pairs, times a constant matrix.
    struct Product {
        k: usize,
        n: usize,
        scope: Scope,
        numerics: Numerics,
    }

    impl Product {
        fn weight(&self) -> Vec<i8> {
            (0..self.n * self.k).map(|i| ((i * 37 + i / 5) % 256) as u8 as i8).collect()
        }

        fn run(&self, x: &[f32], arch: Arch, threads: usize) -> Vec<f32> {
            let Product { k, n, scope, numerics } = *self;
            let (mut graph, mut tensors) = (Graph::new(), Tensors::default());
            let tokens = x.len() / k;
            let input = graph.input("x", Shape::matrix(Dim::Tokens, k), DType::F32);
            let residual = graph.input("residual", Shape::matrix(Dim::Tokens, n), DType::F32);
            let quantise = QuantizeRows { kind: QuantizeKind::Affine, pairs: true, ..QuantizeRows::default() };
            let [q, scale] = graph.apply("quantise", quantise, &[input]).unwrap()[..] else { panic!() };
            let weight = self.weight();
            let floats: Vec<f32> = weight.iter().map(|w| f32::from(*w)).collect();
            tensors.insert("weight", &[n, k], DType::F32, &floats);
            let scales = scope.scales(&Shape::fixed(&[n, k]), k);
            let axes = scales.sizes(Counts::default());
            let scale_values: Vec<f32> = (0..axes.iter().product()).map(|i| 20.0 + i as f32).collect();
            tensors.insert("scale", &axes, DType::F32, &scale_values);
            tensors.insert("bias", &[n], DType::F32, &numbers(n, 3));
            let shape = Shape::fixed(&[n, k]);
            let matrix = graph.weight_as(DType::I8, vec!["weight".into()], shape);
            let weight_scale = graph.weight(vec!["scale".into()], scales);
            let bias = graph.weight(vec!["bias".into()], Shape::fixed(&[n]));
            let activation = Some(ActivationKind::GeluErf);
            let residuals = Residual::Added;
            let op = QuantizedLinear {
                scope,
                pairs: true,
                bias: true,
                activation,
                residual: residuals,
                ..Default::default()
            };
            let operands = [q, scale, matrix, weight_scale, bias, residual];
            graph.outputs = vec![graph.node("product", op, &operands).unwrap()];
            let options = ProgramOptions { num_threads: Some(threads), memory_limit: None };
            let plan = Plan::with(graph, &Fusion { numerics, ..Fusion::default() }).unwrap();
            let program = CpuProgram::new(Arc::new(plan), Arc::new(tensors), options, arch).unwrap();
            let added = numbers(tokens * n, 4);
            let inputs: Vec<&[u8]> = vec![bytemuck::cast_slice(x), bytemuck::cast_slice(&added)];
            let feed = Feed { counts: Counts::new(tokens, 1), inputs, outputs: vec![0] };
            program.submit(&feed).unwrap().wait().unwrap().remove(0)
        }

        /// The reference in float64, in exact integers.
        fn expected(&self, x: &[f32]) -> Vec<f64> {
            let Product { k, n, scope, .. } = *self;
            let (weight, bias, places) = (self.weight(), numbers(n, 3), scope.places(k));
            let added = numbers(x.len() / k * n, 4);
            let mut found = Vec::new();
            for (m, x) in x.chunks_exact(k).enumerate() {
                let (least, most) = x.iter().fold((0f32, 0f32), |(least, most), x| (least.min(*x), most.max(*x)));
                let scale = 127.5 / (0.5 * most - 0.5 * least).max(5e-6);
                let zero = (-128 - (least * scale).round_ties_even() as i64).clamp(-128, 127);
                let q: Vec<i64> =
                    x.iter().map(|x| ((x * scale).round_ties_even() as i64 + zero).clamp(-128, 127)).collect();
                for column in 0..n {
                    let mut sum = 0.0;
                    for (group, q) in q.chunks(places.group).enumerate() {
                        let weight = &weight[column * k + group * places.group..][..q.len()];
                        let exact: i64 = q.iter().zip(weight).map(|(q, w)| (q - zero) * i64::from(*w)).sum();
                        sum += exact as f64 / f64::from(20.0 + (column * places.per_row + group) as f32);
                    }
                    let y = sum / f64::from(scale) + f64::from(bias[column]);
                    let tail = erf(y * std::f64::consts::FRAC_1_SQRT_2);
                    found.push(y * 0.5 * (1.0 + tail) + f64::from(added[m * n + column]));
                }
            }
            found
        }
    }

    const SIZES: [(usize, usize, Scope); 4] =
        [(7, 5, Scope::Row), (64, 130, Scope::Row), (36, 3, Scope::Tensor), (40, 9, Scope::Group(12))];

    #[test]
    fn numbers_that_are_the_same_everywhere_are_so_with_all_instructions() {
        for (k, n, scope) in SIZES {
            let product = Product { k, n, scope, numerics: Numerics::Everywhere };
            let x = numbers(13 * k, 1);
            let y = product.run(&x, archs()[0], 1);
            assert_close(&y, &product.expected(&x), "close", |i| 1e-6 * (1.0 + f64::from(y[i]).abs()));
            for (arch, threads) in archs().into_iter().flat_map(|arch| [(arch, 1), (arch, 3)]) {
                assert!(same_bits(&y, &product.run(&x, arch, threads)), "{k} x {n} {scope:?} {arch:?} {threads}");
            }
        }
    }

    #[test]
    fn constant_matrices_give_exact_sums_and_the_same_bits_in_any_batch() {
        for arch in archs() {
            for (k, n, scope) in SIZES {
                let product = Product { k, n, scope, numerics: Numerics::Run };
                let x = numbers(13 * k, 1);
                let y = product.run(&x, arch, 1);
                let what = format!("{k} x {n} {scope:?} {arch:?}");
                // Divisions, a sum of magnitude at most 16 and an activation.
                assert_close(&y, &product.expected(&x), &what, |i| 1e-6 * (1.0 + f64::from(y[i]).abs()));
                assert!(same_bits(&y, &product.run(&x, arch, 3)), "{what}");
                for rows in [1, 2, 5, 7] {
                    assert!(same_bits(&y[..rows * n], &product.run(&x[..rows * k], arch, 2)), "{what}: {rows}");
                }
            }
        }
    }
}
