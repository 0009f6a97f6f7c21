//! Pairs of columns rotated by an angle per row.

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::Rope;
use crate::ops::rope::head_axes;

pub(super) fn rope(step: &Step<'_>, op: &Rope, out: &mut [f32]) -> Result<()> {
    let [stored, columns] = head_axes(step.shape(0));
    let (heads, half) = (op.heads.unwrap_or(stored), step.shape(1).columns());
    let [x, cos, sin] = [step.floats(0)?, step.floats(1)?, step.floats(2)?];
    // A table shared by all items of the batch is repeated for each.
    let table = cos.len() / half.max(1);
    step.rows(out, columns, 64).each(inlined!(|place, y| {
        let (row, head) = (place / heads, place % heads);
        if head >= stored {
            return y.fill(0.0);
        }
        y.copy_from_slice(&x[(row * stored + head) * columns..][..columns]);
        let angle = if table == 0 { 0 } else { row % table * half };
        turn(y, &cos[angle..][..half], &sin[angle..][..half]);
    }));
    Ok(())
}

/// A head's leading columns in place, as many pairs as there are angles.
#[inline(always)]
pub(super) fn turn(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = head.split_at_mut(cos.len());
    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}
