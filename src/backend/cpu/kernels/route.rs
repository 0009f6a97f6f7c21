//! The experts of each row, their weights, and the places of each expert.

use super::Memory;
use super::sort_indices::sort;
use crate::backend::cpu::simd::exponential;
use crate::backend::cpu::step::Step;
use crate::ops::Route;
use crate::{Error, Result};

/// Rows per thread at least.
const LEAST: usize = 64;

pub(super) fn route(step: &Step<'_>, op: &Route, memory: Memory<'_, '_>) -> Result<()> {
    by_scores(step, op, memory, inlined!(|score| score), weigh)
}

/// As [`route`], of scores that are read by `read` when they are compared; `weigh(scores, chosen, normalized, weight)`.
pub(super) fn by_scores(
    step: &Step<'_>,
    op: &Route,
    memory: Memory<'_, '_>,
    read: impl Fn(f32) -> f32 + Sync,
    weigh: impl Fn(&[f32], &[u32], bool, &mut [f32]) + Sync,
) -> Result<()> {
    let (scores, experts, k) = (step.floats(0)?, step.shape(0).columns(), op.top_k);
    let Memory { results: [weight, order, starts], scratch } = memory else {
        return Err(Error::InvalidArgument("route: expected three results".into()));
    };
    let row = |number: usize| &scores[number * experts..][..experts];
    scratch.resize(weight.len(), "experts of rows")?;
    step.rows(scratch, k, LEAST).each(inlined!(|number, part| {
        let (row, chosen) = (row(number), bytemuck::cast_slice_mut(part));
        choose(inlined!(|expert| read(row[expert])), experts, chosen);
    }));
    let chosen: &[u32] = bytemuck::cast_slice(&scratch[..]);
    step.rows(weight, k, LEAST).each(inlined!(|number, weight| {
        weigh(row(number), &chosen[number * k..], op.normalized, weight);
    }));
    sort(chosen, bytemuck::cast_slice_mut(order), bytemuck::cast_slice_mut(starts));
    Ok(())
}

/// Whether a score is larger than another; NaN is larger than any number.
#[inline(always)]
pub(super) fn above(one: f32, other: f32) -> bool {
    one > other || one.is_nan() && !other.is_nan()
}

/// Of so many experts those of the largest scores, as many as there are places, of equal ones the first.
#[inline(always)]
fn choose(score: impl Fn(usize) -> f32, experts: usize, chosen: &mut [u32]) {
    let mut count = 0;
    for expert in 0..experts {
        let own = score(expert);
        let less = |other: &u32| above(own, score(*other as usize));
        let place = chosen[..count].iter().position(less).unwrap_or(count);
        if place < chosen.len() {
            count = (count + 1).min(chosen.len());
            chosen.copy_within(place..count - 1, place + 1);
            chosen[place] = expert as u32;
        }
    }
}

/// The softmax of the scores at the chosen experts.
fn weigh(scores: &[f32], chosen: &[u32], normalized: bool, weight: &mut [f32]) {
    let most = scores.iter().fold(f32::NEG_INFINITY, |most, x| if above(*x, most) { *x } else { most });
    for (weight, expert) in weight.iter_mut().zip(chosen) {
        *weight = exponential(scores[*expert as usize] - most);
    }
    let mut sum = 0.0;
    if normalized {
        weight.iter().for_each(|x| sum += x);
    } else {
        scores.iter().for_each(|x| sum += exponential(x - most));
    }
    weight.iter_mut().for_each(|x| *x /= sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::assert_close;

    fn chosen(scores: &[f32], k: usize) -> Vec<u32> {
        let mut chosen = vec![0; k];
        choose(|expert| scores[expert], scores.len(), &mut chosen);
        chosen
    }

    #[test]
    fn the_largest_are_chosen_the_first_of_equal_ones_and_nan_before_numbers() {
        assert_eq!(chosen(&[1.0, 3.0, 2.0, 3.0], 3), [1, 3, 2]);
        assert_eq!(chosen(&[0.0, -0.0, 0.0], 2), [0, 1]);
        assert_eq!(chosen(&[1.0, f32::NAN, f32::INFINITY, f32::NAN], 3), [1, 3, 2]);
        assert_eq!(chosen(&[f32::NEG_INFINITY; 3], 3), [0, 1, 2]);
    }

    #[test]
    fn weights_are_those_of_all_experts_or_add_up_to_one() {
        let mut weight = [0.0; 2];
        let near = |weight: &[f32], expected: [f64; 2]| assert_close(weight, &expected, "weights", |_| 2e-7);
        weigh(&[0.0, 2.0f32.ln(), 0.0], &[1, 0], false, &mut weight);
        near(&weight, [0.5, 0.25]);
        weigh(&[0.0, 3.0f32.ln(), 0.0], &[1, 2], true, &mut weight);
        near(&weight, [0.75, 0.25]);
        weigh(&[0.0, f32::NAN, 0.0], &[1, 0], false, &mut weight);
        assert!(weight.iter().all(|x| x.is_nan()));
    }
}
