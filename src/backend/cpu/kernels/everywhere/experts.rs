//! Mixtures of experts: routing, products by the experts of rows, sums of their results.

use super::functions::{canonical, div, exponential, mul, settle};
use super::linear::{Finish, matrices};
use crate::Result;
use crate::backend::cpu::exact::multiply;
use crate::backend::cpu::kernels::expert_linear::by_expert;
use crate::backend::cpu::kernels::route::{above, by_scores};
use crate::backend::cpu::kernels::{Memory, Scratched};
use crate::backend::cpu::step::Step;
use crate::ops::{ExpertLinear, Route, WeightedSum};

pub(super) fn route(step: &Step<'_>, op: &Route, memory: Memory<'_, '_>) -> Result<()> {
    by_scores(step, op, memory, inlined!(|score| settle(score)), weigh)
}

/// `e^(score - max) / sum` at the chosen experts; the sum in order, of all experts or of those that are chosen.
fn weigh(scores: &[f32], chosen: &[u32], normalized: bool, weight: &mut [f32]) {
    let larger = |most, x: &f32| if above(settle(*x), most) { settle(*x) } else { most };
    let most = scores.iter().fold(f32::NEG_INFINITY, larger);
    let power = |x: f32| exponential(settle(x) - most);
    for (weight, expert) in weight.iter_mut().zip(chosen) {
        *weight = power(scores[*expert as usize]);
    }
    let add = |sum: f32, power: f32| sum + power;
    let sum = match normalized {
        true => weight.iter().copied().fold(0.0, add),
        false => scores.iter().map(|x| power(*x)).fold(0.0, add),
    };
    weight.iter_mut().for_each(|x| *x = canonical(div(*x, sum)));
}

/// Each expert's product is that of `linear`, with a balance of its own.
pub(super) fn expert_linear(step: &Step<'_>, op: &ExpertLinear, memory: Scratched<'_>) -> Result<()> {
    if memory.0.is_empty() {
        return Ok(());
    }
    let mut own = Vec::new();
    let weights = matrices(step, 1, &mut own)?;
    let biases = op.bias.then(|| step.floats(4)).transpose()?;
    by_expert(step, memory, |expert, rows, products| {
        let columns = weights[expert].columns();
        let bias = biases.map(|biases| &biases[expert * columns..][..columns]);
        let finish = Finish::new(step.arch, bias, op.activation);
        multiply(step.arch, step.team, rows, &weights[expert], |first, out| finish.apply(first, columns, out), products)
    })
}

pub(super) fn weighted_sum(step: &Step<'_>, op: &WeightedSum, out: &mut [f32]) -> Result<()> {
    let (x, weight) = (step.floats(0)?, step.floats(1)?);
    let bias = op.bias.then(|| step.floats(2)).transpose()?.unwrap_or_default();
    let (each, columns) = (step.shape(1).columns(), step.shape(0).columns());
    step.rows(out, columns, 16).each(inlined!(|number, y| {
        y.fill(0.0);
        for place in number * each..(number + 1) * each {
            let (x, weight) = (&x[place * columns..], settle(weight[place]));
            y.iter_mut().zip(x).for_each(|(y, x)| *y += mul(weight, settle(*x)));
        }
        y.iter_mut().zip(bias).for_each(|(y, bias)| *y += settle(*bias));
        y.iter_mut().for_each(|y| *y = canonical(*y));
    }));
    Ok(())
}
