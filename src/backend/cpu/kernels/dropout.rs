//! `y = x / (1 - p)` where `u >= p`, else 0

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::Dropout;
use crate::ops::rng::Sequence;

/// Elements whose random numbers are generated together, four per block.
const GROUP: usize = 64;

pub(super) fn dropout(step: &Step<'_>, op: &Dropout, out: &mut [f32]) -> Result<()> {
    let x = step.floats(0)?;
    let numbers = op.numbers(step.given(1).then(|| step.words(1)).transpose()?);
    step.rows(out, 1, 1 << 14).vectorized(inlined!(|first, part| {
        part.copy_from_slice(&x[first..][..part.len()]);
        drop_out(op.p, &numbers, first, part);
    }));
    Ok(())
}

/// In place, on elements `first ..` of a tensor.
#[inline(always)]
pub(super) fn drop_out(p: f32, numbers: &Sequence, first: usize, mut part: &mut [f32]) {
    let kept = 1.0 - p;
    let mut start = first;
    while !part.is_empty() {
        // Groups begin at multiples of their length, whatever part of them belongs to this thread.
        let (group, skipped) = (start / GROUP * (GROUP / 4), start % GROUP);
        let (now, later) = part.split_at_mut(part.len().min(GROUP - skipped));
        let u = numbers.uniforms::<{ GROUP / 4 }>(group as u64);
        for (y, u) in now.iter_mut().zip(&u.as_flattened()[skipped..]) {
            *y = if *u >= p { *y / kept } else { 0.0 };
        }
        start += now.len();
        part = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::{Operand, archs, run};
    use crate::ops::{Counts, Dim, Shape};

    #[test]
    fn an_element_is_kept_by_the_random_number_of_its_place() {
        let op = Dropout { p: 0.4, seed: 9, offset: u64::MAX - 1, stream: 0 };
        // Threads share the longest tensor, at boundaries that are not multiples of a group.
        for n in [1, 3, 63, 65, 100_003] {
            let x = vec![1.0; n];
            for arch in archs() {
                let y = run(op.clone(), &[Operand::Floats(Shape::vector(Dim::Fixed(n)), &x)], Counts::default(), arch);
                for (place, y) in y.iter().enumerate() {
                    let [u] = op.numbers(None).uniforms::<1>(place as u64 / 4);
                    assert_eq!(*y, if u[place % 4] >= op.p { 1.0 / (1.0 - op.p) } else { 0.0 }, "{place} of {n}");
                }
            }
        }
    }
}
