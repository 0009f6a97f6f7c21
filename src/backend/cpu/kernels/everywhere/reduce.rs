//! Sum, mean, maximum and deviation over one axis: every column of it is one sum in 64 chains.

use super::functions::{canonical, div, mul, settle};
use super::{refused, sum};
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::reduce::Stage;
use crate::ops::{Reduce, ReduceKind};

pub(super) fn reduce(step: &Step<'_>, op: &Reduce, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let weights = step.given(1).then(|| step.floats(1)).transpose()?;
    let [_, n, inner] = op.axes(step.shape(0));
    if op.stage != Stage::Whole {
        return Err(refused("a part of a reduction"));
    }
    step.rows(out, inner, (4096 / (n * inner).max(1)).max(1)).each(inlined!(|row, y| {
        let x = &x[row * n * inner..][..n * inner];
        let weights = weights.map(|weights| &weights[row * n..][..n]);
        let mut column = vec![0.0f32; n];
        for (c, y) in y.iter_mut().enumerate() {
            let values = x.get(c..).unwrap_or_default().iter().step_by(inner);
            column.iter_mut().zip(values).for_each(|(own, x)| *own = settle(*x));
            *y = canonical(one(op.kind, &mut column, weights));
        }
    }));
    Ok(())
}

/// The reduction of settled numbers.
#[inline(always)]
fn one(kind: ReduceKind, x: &mut [f32], weights: Option<&[f32]>) -> f32 {
    let n = x.len() as f32;
    let plain = inlined!(|[x]: [f32; 1]| x);
    let total = match weights {
        None => sum([&*x], plain),
        Some(weights) => sum([&*x, weights], inlined!(|[x, w]| mul(settle(w), x))),
    };
    match kind {
        ReduceKind::Sum => total,
        ReduceKind::Mean => match weights {
            None => div(total, n),
            Some(weights) => {
                let all = sum([weights], inlined!(|[w]| settle(w)));
                div(total, if all < 1e-9 { 1e-9 } else { all })
            }
        },
        ReduceKind::Max => {
            let seen = |k: &usize| weights.is_none_or(|weights| settle(weights[*k]) > 0.0);
            // NaN is preserved.
            let larger = |most: f32, x: f32| if x > most || x.is_nan() { x } else { most };
            let none = weights.is_some() && !(0..x.len()).any(|k| seen(&k));
            if none { 0.0 } else { (0..x.len()).filter(seen).map(|k| x[k]).fold(f32::NEG_INFINITY, larger) }
        }
        ReduceKind::Deviation => {
            let mean = div(total, n);
            x.iter_mut().for_each(|x| *x -= mean);
            div(sum([&*x], inlined!(|[d]| mul(d, d))), n).sqrt()
        }
    }
}
