//! `y[t] = sum_i table_i[index_i[t]]`, tables in the order of the operands.

use super::functions::{canonical, settle};
use crate::Result;
use crate::backend::cpu::kernels::embedding_sum::Tables;
use crate::backend::cpu::step::Step;

pub(super) fn embedding_sum(step: &Step<'_>, out: &mut [f32]) -> Result<()> {
    let (columns, tables) = (step.shape(1).columns(), Tables::of(step)?);
    step.team.try_rows(out, columns, 16, |first, part| {
        let mut row = vec![0.0f32; columns];
        for (t, sum) in (first..).zip(part.chunks_exact_mut(columns)) {
            sum.fill(0.0);
            for table in 0..tables.count() {
                tables.read(table, t, &mut row)?;
                step.arch.vectorized(inlined!(|| {
                    sum.iter_mut().zip(&row).for_each(|(sum, x)| *sum = canonical(*sum + settle(*x)));
                }));
            }
        }
        Ok(())
    })
}
