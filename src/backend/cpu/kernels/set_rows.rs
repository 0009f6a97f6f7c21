//! Rows written into a table, in place.

use crate::backend::cpu::step::Step;
use crate::ops::SetRows;
use crate::{Error, Result};

pub(super) fn set_rows(step: &Step<'_>, _: &SetRows, out: &mut [f32]) -> Result<()> {
    let (x, index) = (step.floats(1)?, step.indices(2)?);
    let columns = step.shape(0).columns();
    for (row, x) in index.iter().zip(x.chunks_exact(columns.max(1))) {
        let place = out.get_mut(*row as usize * columns..(*row as usize + 1) * columns);
        let outside = || Error::IndexOutOfRange(format!("set_rows: row {row} is not in the table"));
        place.ok_or_else(outside)?.copy_from_slice(x);
    }
    Ok(())
}
