//! Rows rounded to 8-bit integers, and their scales.

use crate::backend::cpu::step::Step;
use crate::ops::QuantizeRows;
use crate::{Error, Result};

/// Minimum words per thread.
const LEAST: usize = 1 << 12;

pub(super) fn quantize_rows(step: &Step<'_>, _: &QuantizeRows, results: &mut [&mut [f32]]) -> Result<()> {
    let (x, columns) = (step.floats(0)?, step.shape(0).columns());
    let [q, scale] = results else { return Err(Error::InvalidArgument("quantize_rows: expected two results".into())) };
    step.rows(scale, 1, 16).vectorized(
        #[inline(always)]
        |first, part| {
            for (row, scale) in (first..).zip(part.iter_mut()) {
                let largest = x[row * columns..][..columns].iter().fold(1e-5f32, |most, x| most.max(x.abs()));
                *scale = 127.0 / largest;
            }
        },
    );
    let scale = &**scale;
    // Four per word; a word may contain the end of one row and the start of the next.
    step.team.rows(q, 1, LEAST, |first, part| {
        for (byte, place) in bytemuck::cast_slice_mut::<f32, i8>(part).iter_mut().zip(4 * first..x.len()) {
            // The conversion from float to int8 saturates.
            *byte = (x[place] * scale[place / columns]).round_ties_even() as i8;
        }
    });
    Ok(())
}
