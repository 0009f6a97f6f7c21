//! `y = rope(rms_norm(x))`, row by row.

use super::rms_norm::normalize;
use super::rope::turn;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::RmsNormRope;
use crate::ops::rope::heads;

pub(super) fn rms_norm_rope(step: &Step<'_>, op: &RmsNormRope, out: &mut [f32]) -> Result<()> {
    let [_, places, heads, head] = heads("rms_norm_rope", step.shape(0))?;
    let (x, weight, cos, sin) = (step.floats(0)?, step.floats(1)?, step.floats(2)?, step.floats(3)?);
    let (columns, half) = (weight.len(), head / 2);
    let place_rows = heads * head / columns.max(1);
    let table = if step.shape(2).0.len() == 2 { places } else { usize::MAX };
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        y.copy_from_slice(&x[row * columns..][..columns]);
        normalize(&op.0, weight, y);
        let angle = row / place_rows % table * half;
        y.chunks_exact_mut(head).for_each(|y| turn(y, &cos[angle..][..half], &sin[angle..][..half]));
    }));
    Ok(())
}
