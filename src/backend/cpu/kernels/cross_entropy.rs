//! Cross entropy and its gradient, row by row.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::backend::cpu::simd::{exponential, largest, sum_by};
use crate::backend::cpu::step::Step;
use crate::ops::cross_entropy::IGNORED;
use crate::ops::{CrossEntropy, CrossEntropyBackward};
use crate::{Error, Result};

/// The operands of both directions.
struct Losses<'a> {
    /// `[rows, classes]`
    logits: &'a [f32],
    classes: usize,
    targets: &'a [u32],
    weight: Option<&'a [f32]>,
    label_smoothing: f32,
    /// Set when a target is not a valid class.
    outside: AtomicBool,
}

impl<'a> Losses<'a> {
    /// The operands from `first` on, the logits.
    fn of(step: &Step<'a>, first: usize, label_smoothing: f32) -> Result<Self> {
        Ok(Losses {
            logits: step.floats(first)?,
            classes: step.shape(first).columns(),
            targets: step.indices(first + 1)?,
            weight: step.given(first + 2).then(|| step.floats(first + 2)).transpose()?,
            label_smoothing,
            outside: AtomicBool::new(false),
        })
    }

    /// The row's logits and target; `None` when it is ignored.
    fn row(&self, row: usize) -> Option<(&'a [f32], usize)> {
        let target = self.targets[row];
        if target != IGNORED && target as usize >= self.classes {
            self.outside.store(true, Relaxed);
            return None;
        }
        (target != IGNORED).then(|| (&self.logits[row * self.classes..][..self.classes], target as usize))
    }

    fn weight(&self, class: usize) -> f32 {
        self.weight.map_or(1.0, |weight| weight[class])
    }

    fn done(self, op: &str) -> Result<()> {
        if self.outside.into_inner() {
            return Err(Error::IndexOutOfRange(format!("{op}: a target is not in 0..{}", self.classes)));
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a loss has the numbers of its device")]
pub(super) fn cross_entropy(step: &Step<'_>, op: &CrossEntropy, out: &mut [f32]) -> Result<()> {
    let losses = Losses::of(step, 0, op.label_smoothing)?;
    let s = losses.label_smoothing;
    step.rows(out, 1, 16).each(inlined!(|row, y| {
        let [y] = y else { return };
        *y = 0.0;
        let Some((x, target)) = losses.row(row) else { return };
        let most = largest(x);
        let log_sum = sum_by([x], |[x]| exponential(x - most)).ln();
        *y = (1.0 - s) * losses.weight(target) * (log_sum - (x[target] - most));
        if s != 0.0 {
            let all = match losses.weight {
                Some(weight) => sum_by([x, weight], |[x, w]| w * (log_sum - (x - most))),
                None => sum_by([x], |[x]| log_sum - (x - most)),
            };
            *y += s / losses.classes as f32 * all;
        }
    }));
    losses.done("cross_entropy")
}

pub(super) fn cross_entropy_backward(step: &Step<'_>, op: &CrossEntropyBackward, out: &mut [f32]) -> Result<()> {
    let g = step.floats(0)?;
    let losses = Losses::of(step, 1, op.0.label_smoothing)?;
    let (s, classes) = (losses.label_smoothing, losses.classes);
    let total = losses.weight.map_or(classes as f32, |weight| sum_by([weight], |[w]| w));
    let spread = s / classes as f32;
    step.rows(out, classes, 16).each(inlined!(|row, y| {
        let Some((x, target)) = losses.row(row) else { return y.fill(0.0) };
        let most = largest(x);
        for (y, x) in y.iter_mut().zip(x) {
            *y = exponential(x - most);
        }
        let scale = 1.0 / sum_by([y], |[y]| y);
        let own = (1.0 - s) * losses.weight(target);
        for (c, y) in y.iter_mut().enumerate() {
            let p = *y * scale;
            let hit = if c == target { 1.0 } else { 0.0 };
            let mut value = own * (p - hit);
            if s != 0.0 {
                value += spread * (p * total - losses.weight(c));
            }
            *y = g[row] * value;
        }
    }));
    losses.done("cross_entropy_backward")
}
