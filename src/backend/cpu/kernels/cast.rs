//! Conversion between element types; those of 16 bits are packed two per word, the first in the lower half.

use std::borrow::Cow;

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::dtype::DType;
use crate::ops::Cast;

/// Converts operand 0; `out` receives the words of the result.
///
/// # Errors
/// As [`Step::floats`].
pub(super) fn cast(step: &Step<'_>, op: &Cast, out: &mut [f32]) -> Result<()> {
    match (step.dtype(0), op.to) {
        (DType::F16, DType::F32) => widen::<f16>(step, out),
        (DType::Bf16, DType::F32) => widen::<bf16>(step, out),
        (DType::I32, DType::F32) => {
            let words = step.words(0)?;
            // The words of an integer array are two's complement.
            out.iter_mut().zip(words).for_each(|(y, x)| *y = *x as i32 as f32);
            Ok(())
        }
        (DType::F32, DType::F32) => {
            out.copy_from_slice(step.floats(0)?);
            Ok(())
        }
        (DType::F16, DType::F16) | (DType::Bf16, DType::Bf16) => {
            out.copy_from_slice(bytemuck::cast_slice(&step.words(0)?[..out.len()]));
            Ok(())
        }
        (DType::I32 | DType::F32, DType::F16) => round::<f16>(step, out),
        (DType::I32 | DType::F32, DType::Bf16) => round::<bf16>(step, out),
        (from, _) => Err(op.unsupported(from)),
    }
}

fn widen<H: Pod + Sync>(step: &Step<'_>, out: &mut [f32]) -> Result<()>
where
    [H]: HalfFloatSliceExt,
{
    let halves: &[H] = bytemuck::cast_slice(step.words(0)?);
    step.team.rows(out, 1, 1 << 14, |first, part| halves[first..][..part.len()].convert_to_f32_slice(part));
    Ok(())
}

fn round<H: Pod>(step: &Step<'_>, out: &mut [f32]) -> Result<()>
where
    [H]: HalfFloatSliceExt,
{
    let x: Cow<'_, [f32]> = match step.dtype(0) {
        DType::I32 => step.words(0)?.iter().map(|x| *x as i32 as f32).collect(),
        _ => step.floats(0)?.into(),
    };
    let elements = step.shape(0).elements(step.counts);
    step.team.rows(out, 1, 1 << 13, |first, part| {
        let x = &x[2 * first..elements.min(2 * (first + part.len()))];
        let (halves, rest) = bytemuck::cast_slice_mut::<f32, H>(part).split_at_mut(x.len());
        halves.convert_from_f32_slice(x);
        rest.fill(H::zeroed());
    });
    Ok(())
}
