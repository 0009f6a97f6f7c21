//! Conversion between element types; float16 is packed two per word, the first in the lower half.

use std::borrow::Cow;

use half::f16;

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::dtype::DType;
use crate::ops::Cast;

/// Converts operand 0; `out` receives the words of the result.
///
/// # Errors
/// As [`Step::floats`].
pub(super) fn cast(step: &Step<'_>, op: &Cast, out: &mut [f32]) -> Result<()> {
    let elements = step.shape(0).elements(step.counts);
    match (step.dtype(0), op.to) {
        (DType::F16, DType::F32) => {
            let halves: &[f16] = bytemuck::cast_slice(step.words(0)?);
            step.team.rows(out, 1, 1 << 14, |first, part| {
                part.iter_mut().zip(&halves[first..]).for_each(|(y, x)| *y = x.to_f32());
            });
        }
        (DType::F16, DType::F16) => out.copy_from_slice(bytemuck::cast_slice(step.words(0)?)),
        (DType::I32, DType::F32) => {
            let words = step.words(0)?;
            // The words of an integer array are two's complement.
            out.iter_mut().zip(words).for_each(|(y, x)| *y = *x as i32 as f32);
        }
        (DType::F32, DType::F32) => out.copy_from_slice(step.floats(0)?),
        (from @ (DType::I32 | DType::F32), DType::F16) => {
            let x: Cow<'_, [f32]> = match from {
                DType::I32 => step.words(0)?.iter().map(|x| *x as i32 as f32).collect(),
                _ => step.floats(0)?.into(),
            };
            step.team.rows(out, 1, 1 << 13, |first, part| {
                let x = &x[2 * first..elements.min(2 * (first + part.len()))];
                for (word, pair) in part.iter_mut().zip(x.chunks(2)) {
                    *word = pack(pair[0], pair.get(1).copied().unwrap_or(0.0));
                }
            });
        }
        (from, _) => return Err(op.unsupported(from)),
    }
    Ok(())
}

fn pack(low: f32, high: f32) -> f32 {
    f32::from_bits(u32::from(f16::from_f32(low).to_bits()) | u32::from(f16::from_f32(high).to_bits()) << 16)
}
