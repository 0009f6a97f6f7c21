//! `y[m, n] = x[m, n] / (scale[m] weight_scale[n])`

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::DequantizeRows;

pub(super) fn dequantize_rows(step: &Step<'_>, _: &DequantizeRows, out: &mut [f32]) -> Result<()> {
    let x: &[i32] = bytemuck::cast_slice(step.words(0)?);
    let (scale, weight_scale) = (step.floats(1)?, step.floats(2)?);
    let columns = step.shape(0).columns().max(1);
    step.rows(out, columns, 16).vectorized(
        #[inline(always)]
        |first, part| {
            for (row, y) in (first..).zip(part.chunks_exact_mut(columns)) {
                for ((y, x), w) in y.iter_mut().zip(&x[row * columns..]).zip(weight_scale) {
                    *y = *x as f32 / (scale[row] * w);
                }
            }
        },
    );
    Ok(())
}
