//! `y = act(q W^T / scales + bias) + residual`, sums of integers within a group of columns.

use super::functions::activate;
use super::integer_linear::{Weight, dot, sums};
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::{Activation, QuantizedLinear, Residual, Scope};

pub(super) fn quantized_linear(step: &Step<'_>, op: &QuantizedLinear, out: &mut [f32]) -> Result<()> {
    let q: &[i8] = bytemuck::cast_slice(step.words(0)?);
    let weight = Weight::of(step, op.levels, 2, step.shape(0).columns())?;
    let (scale, weight_scale) = (step.floats(1)?, step.floats(3)?);
    let bias = op.bias.then(|| step.floats(4)).transpose()?;
    let residual = match op.residual {
        Residual::None => None,
        Residual::Added => Some(step.floats(4 + usize::from(op.bias))?),
    };
    let (n, k, places) = (weight.n.max(1), weight.k, op.scope.places(weight.k));
    if let Scope::Group(group) = op.scope {
        step.rows(out, n, 4).vectorized(
            #[inline(always)]
            |first, part| {
                let mut own = Vec::new();
                for column in 0..weight.n {
                    let weight = weight.row(column, &mut own);
                    for (row, y) in (first..).zip(part.chunks_exact_mut(n)) {
                        let groups = q[row * k..][..k].chunks(group).zip(weight.chunks(group));
                        let parts = groups.zip(&weight_scale[column * places.per_row..]);
                        y[column] = parts.fold(0.0, |sum, ((q, weight), scale)| sum + dot(q, weight) as f32 / scale);
                    }
                }
            },
        );
    } else {
        sums(step, q, &weight, out);
    }
    let grouped = matches!(op.scope, Scope::Group(_));
    step.rows(out, n, 16).vectorized(
        #[inline(always)]
        |first, part| {
            for (row, y) in (first..).zip(part.chunks_exact_mut(n)) {
                for (column, y) in y.iter_mut().enumerate() {
                    let integer = y.to_bits().cast_signed() as f32;
                    let sum = if grouped { *y } else { integer / weight_scale[column * places.per_row] };
                    *y = sum / scale[row] + bias.map_or(0.0, |bias| bias[column]);
                }
            }
        },
    );
    if let Some(kind) = op.activation {
        let function = Activation::from(kind);
        step.team.rows(out, n, 1 + 4096 / n, |_, part| activate(step.arch, &function, part));
    }
    if let Some(residual) = residual {
        out.iter_mut().zip(residual).for_each(|(y, residual)| *y += residual);
    }
    Ok(())
}
