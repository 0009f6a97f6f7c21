//! `y[m, n] = sum_k q[m, k] weight[n, k]` in integers.

use std::borrow::Cow;

use crate::Result;
use crate::backend::cpu::integers::PackedIntegers;
use crate::backend::cpu::simd::{INTEGER_PANEL, INTEGER_ROWS};
use crate::backend::cpu::step::Step;
use crate::ops::{IntegerLinear, Levels};

/// Fewest panels per thread.
const LEAST_PANELS: usize = 4;

/// The weight at a place; one that is an input of the batch is packed for this batch, into `own`, in panels where `panels`
/// and enough rows are multiplied.
pub(super) fn weight<'a, 'b>(
    step: &'b Step<'a>,
    levels: Levels,
    place: usize,
    panels: bool,
    own: &'b mut Option<PackedIntegers<'a>>,
) -> Result<&'b PackedIntegers<'a>>
where
    'a: 'b,
{
    if let Some(packed) = step.constants.integers(step.operands[place]) {
        return Ok(packed);
    }
    let rows = step.shape(0).elements(step.counts) / step.shape(0).columns().max(1);
    let (columns, depth) = (step.shape(place).rows().size(step.counts), step.shape(0).columns());
    let bytes: &'a [u8] = bytemuck::cast_slice(step.words(place)?);
    let unit = step.arch.bytes().filter(|_| panels && rows >= INTEGER_ROWS);
    if levels == Levels::Int8 && unit.is_none() {
        let rows = &bytemuck::cast_slice(bytes)[..columns * depth];
        return Ok(own.insert(PackedIntegers::in_rows(columns, depth, Cow::Borrowed(rows))));
    }
    let row_bytes = levels.bytes(depth);
    let packed = PackedIntegers::new(unit, columns, depth, |n, values| {
        levels.unpack(&bytes[n * row_bytes..][..row_bytes], values);
        Ok(())
    })?;
    Ok(own.insert(packed))
}

/// Passes the exact sums of all columns and rows to `finish`: the row, the first column, the sums, and the results there.
pub(super) fn products(
    step: &Step<'_>,
    weight: &PackedIntegers<'_>,
    out: &mut [f32],
    finish: impl Fn(usize, usize, &[i32], &mut [f32]) + Sync,
) -> Result<()> {
    let (n, k) = (weight.columns().max(1), step.shape(0).columns());
    let q: &[i8] = bytemuck::cast_slice(step.words(0)?);
    if out.len() == n {
        step.team.rows(out, INTEGER_PANEL, LEAST_PANELS, |panel, part| {
            let first = panel * INTEGER_PANEL;
            weight.multiply(step.arch, (&q[..k], 1), first..first + part.len(), |_, column, sums| {
                finish(0, column, sums, &mut part[column - first..][..sums.len()]);
            });
        });
        return Ok(());
    }
    step.team.rows(out, n, 1, |first, part| {
        let rows = part.len() / n;
        weight.multiply(step.arch, (&q[first * k..][..rows * k], rows), 0..n, |row, column, sums| {
            finish(first + row, column, sums, &mut part[row * n + column..][..sums.len()]);
        });
    });
    Ok(())
}

pub(super) fn integer_linear(step: &Step<'_>, op: &IntegerLinear, out: &mut [f32]) -> Result<()> {
    let mut own = None;
    let weight = weight(step, op.levels, 1, true, &mut own)?;
    products(step, weight, out, |_, _, sums, y| y.copy_from_slice(bytemuck::cast_slice(sums)))
}
