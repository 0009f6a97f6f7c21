//! `y = x1 act(x2)`

use super::functions::activate;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::Gated;

pub(super) fn gated(step: &Step<'_>, op: &Gated, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let columns = step.shape(0).columns() / 2;
    step.team.rows(out, columns, 1 + 4096 / columns, |first, part| {
        let rows = x[2 * first * columns..].chunks_exact(2 * columns);
        for (y, x) in part.chunks_exact_mut(columns).zip(rows) {
            let (x1, x2) = x.split_at(columns);
            y.copy_from_slice(x2);
            activate(step.arch, &op.0, y);
            y.iter_mut().zip(x1).for_each(|(y, x1)| *y *= x1);
        }
    });
    Ok(())
}
