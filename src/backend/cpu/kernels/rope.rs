//! Pairs of columns rotated by an angle per row.

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::Rope;
use crate::ops::rope::head_axes;

pub(super) fn rope(step: &Step<'_>, _: &Rope, out: &mut [f32]) -> Result<()> {
    let [heads, columns] = head_axes(step.shape(0));
    let half = columns / 2;
    let [x, cos, sin] = [step.floats(0)?, step.floats(1)?, step.floats(2)?];
    // A table shared by all items of the batch is repeated for each.
    let table = cos.len() / half.max(1);
    step.team.rows(out, columns, 64, |first, part| {
        for (i, (y, x)) in part.chunks_exact_mut(columns).zip(x[first * columns..].chunks_exact(columns)).enumerate() {
            let angle = (first + i) / heads % table * half;
            let (cos, sin) = (&cos[angle..][..half], &sin[angle..][..half]);
            y.copy_from_slice(x);
            turn(y, cos, sin);
        }
    });
    Ok(())
}

/// A head's columns in place.
#[inline(always)]
pub(super) fn turn(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = head.split_at_mut(cos.len());
    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}
