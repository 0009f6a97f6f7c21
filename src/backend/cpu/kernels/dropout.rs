//! `y = x / (1 - p)` where `u >= p`, else 0

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::graph::ValueId;
use crate::ops::Dropout;
use crate::ops::rng::uniforms;

pub(super) fn run(step: &Step<'_>, op: &Dropout, operands: &[ValueId], out: &mut [f32]) -> Result<()> {
    let x = step.floats(operands[0])?;
    let kept = 1.0 - op.p;
    step.team.rows(out, 1, 4096, |first, part| {
        let (mut block, mut u) = (u64::MAX, [0.0; 4]);
        for (i, (y, x)) in (first as u64..).zip(part.iter_mut().zip(&x[first..])) {
            if i / 4 != block {
                block = i / 4;
                u = uniforms(op.seed, block.wrapping_add(op.offset));
            }
            *y = if u[i as usize % 4] >= op.p { x / kept } else { 0.0 };
        }
    });
    Ok(())
}
