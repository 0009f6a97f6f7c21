//! `y[m, k] = (x[m, k] - zero) / scale`

use super::functions::{Floats, Own};
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::DequantizeRows;

pub(super) fn dequantize_rows(step: &Step<'_>, op: &DequantizeRows, out: &mut [f32]) -> Result<()> {
    with::<Own>(step, op, out)
}

/// With quotients of a kind.
pub(super) fn with<F: Floats>(step: &Step<'_>, op: &DequantizeRows, out: &mut [f32]) -> Result<()> {
    let x: &[u8] = bytemuck::cast_slice(step.words(0)?);
    let scale = step.floats(1)?;
    let zero: Option<&[i32]> = if op.zero { Some(bytemuck::cast_slice(step.words(2)?)) } else { None };
    let row_bytes = step.shape(0).columns();
    let columns = op.columns.unwrap_or(row_bytes).max(1);
    let places = op.scope.places(columns);
    step.rows(out, columns, 16).each(inlined!(|row, y| {
        let x = &x[row * row_bytes..][..row_bytes];
        for (column, y) in y.iter_mut().enumerate() {
            let place = row * places.per_row + column / places.group;
            let integer = i32::from(op.levels.value(x, column)) - zero.map_or(0, |zero| zero[place]);
            *y = F::quotient(integer as f32, scale[place]);
        }
    }));
    Ok(())
}
