//! `y = a + b`, `a - b`, `a b` or `a / b`, `b` broadcast to `a`

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::binary::{BroadcastAxis, broadcast};
use crate::ops::{Binary, BinaryKind};

pub(super) fn binary(step: &Step<'_>, op: &Binary, out: &mut [f32]) -> Result<()> {
    match op.kind {
        BinaryKind::Add => walk(step, out, inlined!(|a, b| a + b)),
        BinaryKind::Subtract => walk(step, out, inlined!(|a, b| a - b)),
        BinaryKind::Multiply => walk(step, out, inlined!(|a, b| a * b)),
        BinaryKind::Divide => walk(step, out, inlined!(|a, b| a / b)),
    }
}

/// `y = f(a, b)`, elementwise; `f` is an `inlined!` closure.
pub(super) fn walk(step: &Step<'_>, out: &mut [f32], f: impl Fn(f32, f32) -> f32 + Copy + Sync) -> Result<()> {
    let (a, b) = (step.floats(0)?, step.floats(1)?);
    let axes = broadcast(step.shape(0), step.shape(1))?;
    let Some((inner, outer)) = axes.split_first() else {
        step.rows(out, 1, 4096).vectorized(inlined!(|first, part| {
            part.iter_mut().zip(&a[first..]).zip(&b[first..]).for_each(|((y, a), b)| *y = f(*a, *b));
        }));
        return Ok(());
    };
    // The batch determines the size of the only axis: 0 means all elements, of which there may be none.
    let columns = if inner.size == 0 { out.len().max(1) } else { inner.size };
    step.rows(out, columns, 1 + 4096 / columns).each(inlined!(|row, y| {
        let (a, b) = (&a[row * columns..], &b[start(outer, row)..]);
        match inner.stride {
            0 => y.iter_mut().zip(a).for_each(|(y, a)| *y = f(*a, b[0])),
            _ => y.iter_mut().zip(a).zip(b).for_each(|((y, a), b)| *y = f(*a, *b)),
        }
    }));
    Ok(())
}

/// The offset of a row in `b`, from the axes `outer`.
fn start(outer: &[BroadcastAxis], mut row: usize) -> usize {
    let mut at = 0;
    for axis in outer {
        // The slowest axis may have any size that the batch determines.
        let size = if axis.size == 0 { usize::MAX } else { axis.size };
        at += row % size * axis.stride;
        row /= size;
    }
    at
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::testing::{Operand, archs, numbers, run};
    use crate::ops::{Binary, BinaryKind, Counts, Dim, Shape};

    #[test]
    fn a_number_goes_with_any_number_of_elements() {
        for tokens in [0, 1, 33] {
            let (a, shape) = (numbers(tokens, 1), Shape::vector(Dim::Tokens));
            let operands = [Operand::Floats(shape, &a), Operand::Floats(Shape::fixed(&[]), &[2.0])];
            let y = run(Binary::from(BinaryKind::Divide), &operands, Counts::new(tokens, 1), archs()[0]);
            assert_eq!(y, a.iter().map(|a| a / 2.0).collect::<Vec<_>>());
        }
    }

    #[test]
    fn sums_are_those_of_ieee() {
        for arch in archs() {
            for tokens in [0, 1, 2, 15, 17, 1000] {
                let (mut a, b) = (numbers(tokens * 7, 1), numbers(tokens * 7, 2));
                if tokens > 1 {
                    (a[0], a[1]) = (f32::NAN, f32::INFINITY);
                }
                let shape = Shape::matrix(Dim::Tokens, 7);
                let operands = [Operand::Floats(shape.clone(), &a), Operand::Floats(shape, &b)];
                let y = run(Binary::from(BinaryKind::Add), &operands, Counts::new(tokens, 1), arch);
                for ((y, a), b) in y.iter().zip(&a).zip(&b) {
                    assert!(*y == a + b || (y.is_nan() && (a + b).is_nan()));
                }
            }
        }
    }
}
