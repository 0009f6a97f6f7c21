//! `y[t, r] = act(x[t, r] weight[e]^T + bias[e])`, expert by expert, some rows at a time, which lie together meanwhile.

use super::Scratched;
use super::linear::{biases, matrices};
use crate::backend::cpu::matmul::multiply;
use crate::backend::cpu::simd::Finish;
use crate::backend::cpu::step::Step;
use crate::ops::ExpertLinear;
use crate::{Error, Result};

/// Number of rows that are multiplied at a time.
const ROWS: usize = 512;

pub(super) fn expert_linear(step: &Step<'_>, op: &ExpertLinear, memory: Scratched<'_>) -> Result<()> {
    if memory.0.is_empty() {
        return Ok(());
    }
    let columns = ExpertLinear::sizes(step.shape(1))[1];
    let mut own = Vec::new();
    let weights = matrices(step, 1, &mut own)?;
    let padded = weights[0].padded_columns();
    let biases = biases(step, op.bias.then_some(4), padded)?;
    by_expert(step, memory, |expert, rows, products| {
        // The bias of a product is read past its columns, whose results are not kept.
        let bias = if op.bias { &biases[expert * columns..][..padded] } else { &[] };
        let finish = Finish { bias, activation: op.activation, residual: None };
        multiply(step.arch, step.team, rows, &weights[expert], finish, products)
    })
}

/// Passes rows of each expert that has some to `multiply`, with memory for their products, which become rows of the result,
/// which has some.
pub(super) fn by_expert(
    step: &Step<'_>,
    (out, scratch): Scratched<'_>,
    multiply: impl Fn(usize, &[f32], &mut [f32]) -> Result<()>,
) -> Result<()> {
    let (x, [experts, columns, depth]) = (step.floats(0)?, ExpertLinear::sizes(step.shape(1)));
    let places = step.shape(2).elements(step.counts);
    let each = if step.shape(0).0.len() == 2 { step.shape(2).columns() } else { 1 };
    let (order, starts) = (&step.words(2)?[..places], &step.words(3)?[..experts + 1]);
    let within = starts.is_sorted() && starts.iter().all(|start| *start as usize <= places);
    if !within || order.iter().any(|place| *place as usize >= places) {
        let what = format!("expert_linear: order or starts lie outside {places} places");
        return Err(Error::IndexOutOfRange(what));
    }
    let rows = ROWS.min(places);
    scratch.resize(rows * (depth + columns), "rows of experts")?;
    let (rows, products) = scratch.split_at_mut(rows * depth);
    for expert in 0..experts {
        for order in order[starts[expert] as usize..starts[expert + 1] as usize].chunks(ROWS) {
            let (rows, products) = (&mut rows[..order.len() * depth], &mut products[..order.len() * columns]);
            for (row, place) in rows.chunks_exact_mut(depth.max(1)).zip(order) {
                row.copy_from_slice(&x[*place as usize / each * depth..][..depth]);
            }
            multiply(expert, rows, products)?;
            for (product, place) in products.chunks_exact(columns).zip(order) {
                out[*place as usize * columns..][..columns].copy_from_slice(product);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::{Operand, archs, assert_close, numbers, run, same_bits, try_run};
    use crate::ops::{ActivationKind, Counts, Dim, Shape};

    const SIZES: [usize; 3] = [4, 19, 33];

    struct Case {
        weight: Vec<f32>,
        bias: Vec<f32>,
        op: ExpertLinear,
    }

    impl Case {
        fn new(op: ExpertLinear) -> Self {
            let [experts, n, k] = SIZES;
            Case { weight: numbers(experts * n * k, 2), bias: numbers(experts * n, 3), op }
        }

        /// Of `tokens` rows, two places each, whose experts `expert` gives.
        fn run(&self, x: &[f32], expert: &[u32], each: usize, constant: bool) -> Vec<f32> {
            let [experts, n, k] = SIZES;
            let tokens = expert.len() / 2;
            let mut order: Vec<u32> = (0..expert.len() as u32).collect();
            order.sort_by_key(|place| expert[*place as usize]);
            let starts: Vec<u32> =
                (0..=experts as u32).map(|e| expert.iter().filter(|own| **own < e).count() as u32).collect();
            let shape = if each == 1 {
                vec![Dim::Tokens, Dim::Fixed(k)]
            } else {
                vec![Dim::Tokens, Dim::Fixed(2), Dim::Fixed(k)]
            };
            let given = |axes: &'static [usize], values| match constant {
                true => Operand::Weight(axes, values),
                false => Operand::Floats(Shape::fixed(axes), values),
            };
            let mut operands = vec![
                Operand::Floats(Shape(shape), x),
                given(&SIZES, &self.weight),
                Operand::Indices(Shape::matrix(Dim::Tokens, 2), &order),
                Operand::Indices(Shape::fixed(&[experts + 1]), &starts),
            ];
            if self.op.bias {
                operands.push(given(&[SIZES[0], SIZES[1]], &self.bias));
            }
            let mut all = Vec::new();
            for arch in archs() {
                let y = run(self.op.clone(), &operands, Counts::new(tokens, 1), arch);
                let expected: Vec<f64> = (0..2 * tokens * n)
                    .map(|at| {
                        let (place, n, e) = (at / SIZES[1], at % SIZES[1], expert[at / SIZES[1]] as usize);
                        let row = &x[if each == 1 { place / 2 } else { place } * k..][..k];
                        let w = &self.weight[(e * SIZES[1] + n) * k..][..k];
                        let sum = row.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum::<f64>();
                        let y = if self.op.bias { sum + f64::from(self.bias[e * SIZES[1] + n]) } else { sum };
                        if self.op.activation.is_some() { y.max(0.0) } else { y }
                    })
                    .collect();
                // 33 products of at most 9, each partial sum rounded.
                assert_close(&y, &expected, &format!("{arch:?}"), |_| 33.0 * 20.0 * f64::from(f32::EPSILON));
                all = y;
            }
            all
        }
    }

    #[test]
    fn rows_meet_their_experts_in_every_form() {
        // No row is expert 2's, and most are expert 3's.
        let expert: Vec<u32> = (0..1100u32).map(|place| if place % 7 == 0 { place % 2 } else { 3 }).collect();
        for bias in [false, true] {
            for activation in [None, Some(ActivationKind::Relu)] {
                let case = Case::new(ExpertLinear { bias, activation });
                let x = numbers(1100 * SIZES[2], 1);
                let shared = case.run(&x[..550 * SIZES[2]], &expert, 1, true);
                assert!(same_bits(&shared, &case.run(&x[..550 * SIZES[2]], &expert, 1, false)));
                case.run(&x, &expert, 2, true);
                case.run(&[], &[], 1, true);
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_in_any_batch() {
        let expert: Vec<u32> = (0..400u32).map(|place| place * place % 4).collect();
        let case = Case::new(ExpertLinear { bias: true, activation: None });
        let x = numbers(400 * SIZES[2], 1);
        let all = case.run(&x, &expert, 2, true);
        for (first, rows) in [(0, 1), (7, 2), (100, 90)] {
            let (k, n) = (2 * SIZES[2], 2 * SIZES[1]);
            let some = case.run(&x[first * k..(first + rows) * k], &expert[2 * first..2 * (first + rows)], 2, true);
            assert!(same_bits(&some, &all[first * n..(first + rows) * n]), "{first} {rows}");
        }
    }

    #[test]
    fn places_outside_the_result_are_refused() {
        let (x, weight) = ([0.0; 2], [0.0; 2]);
        for (order, starts) in [([0, 2], [0, 2]), ([0, 1], [0, 3]), ([0, 1], [2, 0])] {
            let operands = [
                Operand::Floats(Shape::matrix(Dim::Tokens, 2), &x),
                Operand::Weight(&[1, 1, 2], &weight),
                Operand::Indices(Shape::matrix(Dim::Tokens, 2), &order),
                Operand::Indices(Shape::fixed(&[2]), &starts),
            ];
            let error = try_run(ExpertLinear::default(), &operands, Counts::new(1, 1), archs()[0], 1);
            assert!(matches!(error, Err(Error::IndexOutOfRange(_))), "{order:?} {starts:?}");
        }
    }
}
