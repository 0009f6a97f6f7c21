//! `y[b, i, h] = sum_j weights[b, h, i, j] * v[b, j, g(h)]`, keys in order from zero.

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::graph::shaders::ATTENTION_OUTPUT;
use crate::ops::{AttentionOutput, AttentionSizes, Pattern};

/// `y += w * v`
#[inline(always)]
fn add(w: f32, v: &[f32], y: &mut [f32]) {
    for (y, v) in y.iter_mut().zip(v) {
        *y = w.mul_add(*v, *y);
    }
}

struct Rows<'a> {
    op: &'a AttentionOutput,
    sizes: AttentionSizes,
    pattern: Pattern,
    weights: &'a [f32],
    values: &'a [f32],
}

impl Rows<'_> {
    /// One head of one query: row `((b * q_len) + i) * heads + h` of the result.
    #[inline(always)]
    fn row(&self, row: usize, y: &mut [f32]) {
        let AttentionSizes { heads, kv_heads, q_len, kv_len, head_dim, .. } = self.sizes;
        let (head, query, text) = (row % heads, row / heads % q_len, row / heads / q_len);
        let weights = &self.weights[((text * heads + head) * q_len + query) * kv_len..][..kv_len];
        let kv_head = head * kv_heads / heads;
        y.fill(0.0);
        for (key, w) in weights.iter().enumerate() {
            if self.pattern.allows(self.op, query, key, kv_len) {
                let v = &self.values[((text * kv_len + key) * kv_heads + kv_head) * head_dim..][..head_dim];
                add(*w, v, y);
            }
        }
    }
}

impl pulp::WithSimd for Part<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _simd: S) {
        for (place, y) in self.out.chunks_exact_mut(self.rows.sizes.head_dim).enumerate() {
            self.rows.row(self.first + place, y);
        }
    }
}

/// Some rows of the result.
struct Part<'a, 'b> {
    rows: &'b Rows<'a>,
    first: usize,
    out: &'b mut [f32],
}

pub(super) fn attention_output(step: &Step<'_>, op: &AttentionOutput, out: &mut [f32]) -> Result<()> {
    let sizes = op.sizes(step.shape(0), step.shape(1))?;
    if out.is_empty() {
        return Ok(());
    }
    let row = step.plan.shaders.find(ATTENTION_OUTPUT, &op.architecture);
    let pattern = row.map_or(Pattern::Full, |row| row.pattern);
    let (weights, values) = (step.floats(0)?, step.floats(1)?);
    let rows = Rows { op, sizes, pattern, weights, values };
    step.team.rows(out, sizes.head_dim, 8, |first, part| {
        step.arch.dispatch(Part { rows: &rows, first, out: part });
    });
    Ok(())
}
