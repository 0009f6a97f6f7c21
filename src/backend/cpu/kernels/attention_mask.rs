//! `scores + mask_value` where a key is hidden.

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::AttentionMask;

pub(super) fn attention_mask(step: &Step<'_>, op: &AttentionMask, out: &mut [f32]) -> Result<()> {
    let axes = step.shape(0).fixed_axes("attention_mask", "scores")?;
    let (rows, keys) = (axes[axes.len() - 2], axes[axes.len() - 1]);
    let each = axes[1..axes.len() - 1].iter().product::<usize>();
    let scores = step.floats(0)?;
    let mask = step.given(1).then(|| step.floats(1)).transpose()?;
    step.rows(out, keys, 16).each(inlined!(|row, y| {
        let x = &scores[row * keys..][..keys];
        let seen = if op.causal { keys.min(row % rows + 1) } else { keys };
        match mask {
            None => y[..seen].copy_from_slice(&x[..seen]),
            Some(mask) => {
                let mask = &mask[row / each * keys..][..seen];
                for ((y, x), keep) in y.iter_mut().zip(x).zip(mask) {
                    *y = if *keep == 0.0 { x + op.mask_value } else { *x };
                }
            }
        }
        y[seen..].iter_mut().zip(&x[seen..]).for_each(|(y, x)| *y = x + op.mask_value);
    }));
    Ok(())
}
