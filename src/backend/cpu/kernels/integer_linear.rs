//! `y[m, n] = sum_k q[m, k] weight[n, k]` in integers.

use crate::Result;
use crate::backend::cpu::simd::{INTEGER_ROWS, multiply_integers, pack_integers};
use crate::backend::cpu::step::Step;
use crate::ops::IntegerLinear;

pub(super) fn integer_linear(step: &Step<'_>, _: &IntegerLinear, out: &mut [f32]) -> Result<()> {
    let [q, weight] = [0, 1].map(|place| step.words(place));
    let (q, weight): (&[i8], &[i8]) = (bytemuck::cast_slice(q?), bytemuck::cast_slice(weight?));
    let k = step.shape(1).columns();
    let n = step.shape(1).rows().size(step.counts);
    let rows = out.len() / n.max(1);
    if let (Some(unit), true) = (step.arch.bytes(), k > 0 && rows >= INTEGER_ROWS) {
        let panels = pack_integers(&weight[..n * k], n, k);
        step.team.rows(out, n.max(1), INTEGER_ROWS, |first, part| {
            let y: &mut [i32] = bytemuck::cast_slice_mut(part);
            let q = &q[first * k..][..y.len() / n * k];
            multiply_integers(unit, q, k, &panels, n, |row, column, sums| {
                y[row * n + column..][..sums.len()].copy_from_slice(sums);
            });
        });
        return Ok(());
    }
    step.rows(out, n.max(1), 4).vectorized(
        #[inline(always)]
        |first, part| {
            for (row, y) in (first..).zip(bytemuck::cast_slice_mut::<f32, i32>(part).chunks_exact_mut(n.max(1))) {
                let q = &q[row * k..][..k];
                for (column, y) in y.iter_mut().enumerate() {
                    let products = q.iter().zip(&weight[column * k..][..k]);
                    *y = products.map(|(q, w)| i32::from(*q) * i32::from(*w)).sum();
                }
            }
        },
    );
    Ok(())
}
