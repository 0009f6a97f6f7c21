//! `y[b, i, h] = sum_j weights[b, h, i, j] * v[b, j, g(h)]`, keys in order from zero.

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::graph::shaders::ATTENTION_OUTPUT;
use crate::ops::{AttentionOutput, AttentionSizes, Pattern};

pub(super) fn attention_output(step: &Step<'_>, op: &AttentionOutput, out: &mut [f32]) -> Result<()> {
    let AttentionSizes { heads, kv_heads, q_len, kv_len, head_dim, .. } = op.sizes(step.shape(0), step.shape(1))?;
    let row = step.plan.shaders.find(ATTENTION_OUTPUT, &op.architecture);
    let pattern = row.map_or(Pattern::Full, |row| row.pattern);
    let (weights, values) = (step.floats(0)?, step.floats(1)?);
    step.rows(out, head_dim, 8).each(inlined!(|row, y| {
        // Rows are numbered `(b * q_len + i) * heads + h`.
        let (head, query, text) = (row % heads, row / heads % q_len, row / heads / q_len);
        let weights = &weights[((text * heads + head) * q_len + query) * kv_len..][..kv_len];
        let kv_head = head * kv_heads / heads;
        y.fill(0.0);
        for (key, w) in weights.iter().enumerate() {
            if pattern.allows(op, query, key, kv_len) {
                let v = &values[((text * kv_len + key) * kv_heads + kv_head) * head_dim..][..head_dim];
                y.iter_mut().zip(v).for_each(|(y, v)| *y = w.mul_add(*v, *y));
            }
        }
    }));
    Ok(())
}
