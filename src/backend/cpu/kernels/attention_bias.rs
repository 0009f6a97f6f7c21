//! `cap(scores) + bias` by distance, and minus infinity where a key is hidden.

use super::functions::activate;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::{Activation, ActivationKind, AttentionBias};

pub(super) fn attention_bias(step: &Step<'_>, op: &AttentionBias, out: &mut [f32]) -> Result<()> {
    let axes = step.shape(0).fixed_axes("attention_bias", "scores")?;
    let (heads, queries, keys) = (axes[1], axes[2], axes[3]);
    let scores = step.floats(0)?;
    let (biases, distances) = if step.given(1) { (step.floats(1)?, step.shape(1).columns()) } else { (&[][..], 1) };
    let reach = distances as i64 / 2;
    let tanh = Activation::from(ActivationKind::Tanh);
    step.team.rows(out, keys, 16, |first, part| {
        part.copy_from_slice(&scores[first * keys..][..part.len()]);
        if op.soft_cap > 0.0 {
            part.iter_mut().for_each(|y| *y /= op.soft_cap);
            activate(step.arch, &tanh, part);
            part.iter_mut().for_each(|y| *y *= op.soft_cap);
        }
        for (row, y) in (first..).zip(part.chunks_exact_mut(keys)) {
            let (query, head) = (row % queries, row / queries % heads);
            if let Some(biases) = biases.get(head * distances..(head + 1) * distances) {
                let places = (-(query as i64)..).map(|distance| (distance.clamp(-reach, reach) + reach) as usize);
                y.iter_mut().zip(places).for_each(|(y, place)| *y += biases[place]);
            }
            let hidden = y.iter_mut().enumerate().filter(|(key, _)| !op.sees(query, *key));
            hidden.for_each(|(_, y)| *y = f32::NEG_INFINITY);
        }
    });
    Ok(())
}
