//! `y = x1 act(x2)`, and its gradient.

use super::functions::{activate, times_slope};
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::{Gated, GatedBackward};

pub(super) fn gated(step: &Step<'_>, op: &Gated, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let columns = step.shape(0).columns() / 2;
    step.rows(out, columns, 1 + 4096 / columns).each(inlined!(|row, y| {
        let (x1, x2) = x[2 * row * columns..][..2 * columns].split_at(columns);
        y.copy_from_slice(x2);
        activate(step.arch, &op.0, y);
        y.iter_mut().zip(x1).for_each(|(y, x1)| *y *= x1);
    }));
    Ok(())
}

/// `y = [g act(x2), g x1 act'(x2)]`
pub(super) fn gated_backward(step: &Step<'_>, op: &GatedBackward, out: &mut [f32]) -> Result<()> {
    let (g, x) = (step.floats(0)?, step.floats(1)?);
    let columns = step.shape(0).columns();
    step.rows(out, 2 * columns, 1 + 1024 / columns).each(inlined!(|row, y| {
        let (g, x) = (&g[row * columns..][..columns], &x[2 * row * columns..][..2 * columns]);
        let ((y1, y2), (x1, x2)) = (y.split_at_mut(columns), x.split_at(columns));
        y1.copy_from_slice(x2);
        activate(step.arch, &op.0, y1);
        y1.iter_mut().zip(g).for_each(|(y, g)| *y *= g);
        y2.iter_mut().zip(g).zip(x1).for_each(|((y, g), x1)| *y = g * x1);
        times_slope(step.arch, &op.0, x2, y2);
    }));
    Ok(())
}
