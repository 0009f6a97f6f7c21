//! `y[v] = sum_i g[order[i]]`, `i` in `starts[v]..starts[v + 1]`, in that order.

use crate::backend::cpu::step::Step;
use crate::ops::EmbeddingBackward;
use crate::{Error, Result};

pub(super) fn embedding_backward(step: &Step<'_>, _: &EmbeddingBackward, out: &mut [f32]) -> Result<()> {
    let g = step.floats(0)?;
    let (order, starts) = (step.indices(1)?, step.indices(2)?);
    let columns = step.shape(0).columns();
    step.team.try_rows(out, columns, 64, |first, part| {
        for (row, y) in (first..).zip(part.chunks_exact_mut(columns)) {
            y.fill(0.0);
            let end = (starts[row + 1] as usize).min(order.len());
            for token in &order[(starts[row] as usize).min(end)..end] {
                let Some(g) = g.get(*token as usize * columns..(*token as usize + 1) * columns) else {
                    return Err(Error::IndexOutOfRange("embedding_backward: a place lies outside g".into()));
                };
                for (y, g) in y.iter_mut().zip(g) {
                    *y += g;
                }
            }
        }
        Ok(())
    })
}
