//! Sums of the largest elements of parts of rows.

use super::functions::{Floats, Own};
use crate::Result;
use crate::backend::cpu::simd::nan_max;
use crate::backend::cpu::step::Step;
use crate::ops::MaxSum;

/// The sum of a part without columns.
pub(super) const EMPTY: f32 = -1e9;

pub(super) fn max_sum(step: &Step<'_>, _: &MaxSum, out: &mut [f32]) -> Result<()> {
    with::<Own>(step, out)
}

/// With numbers read as a kind of arithmetic reads them.
pub(super) fn with<F: Floats>(step: &Step<'_>, out: &mut [f32]) -> Result<()> {
    let (x, row_starts, starts) = (step.floats(0)?, step.indices(1)?, step.indices(2)?);
    let columns = step.shape(0).columns();
    step.rows(out, starts.len() - 1, 1).each(inlined!(|part, y| {
        y.fill(0.0);
        for row in row_starts[part] as usize..row_starts[part + 1] as usize {
            let x = &x[row * columns..][..columns];
            for (y, own) in y.iter_mut().zip(starts.windows(2)) {
                let own = &x[own[0] as usize..own[1] as usize];
                *y += own.iter().fold(f32::NEG_INFINITY, |most, x| nan_max(most, F::read(*x)));
            }
        }
        for (y, own) in y.iter_mut().zip(starts.windows(2)) {
            *y = if own[0] == own[1] { EMPTY } else { F::stored(*y) };
        }
    }));
    Ok(())
}
