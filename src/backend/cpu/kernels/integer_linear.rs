//! `y[m, n] = sum_k q[m, k] weight[n, k]` in integers.

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::IntegerLinear;

pub(super) fn integer_linear(step: &Step<'_>, _: &IntegerLinear, out: &mut [f32]) -> Result<()> {
    let [q, weight] = [0, 1].map(|place| step.words(place));
    let (q, weight): (&[i8], &[i8]) = (bytemuck::cast_slice(q?), bytemuck::cast_slice(weight?));
    let k = step.shape(1).columns();
    let n = step.shape(1).rows().size(step.counts);
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
