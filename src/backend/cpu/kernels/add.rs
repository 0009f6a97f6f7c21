//! `y = a + b`

use pulp::{Simd, WithSimd};

use crate::Result;
use crate::backend::cpu::simd;
use crate::backend::cpu::step::Step;
use crate::graph::ValueId;

struct Sum<'a> {
    a: &'a mut [f32],
    b: &'a [f32],
}

impl WithSimd for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        simd::add(simd, self.a, self.b);
    }
}

pub(super) fn run(step: &Step<'_>, operands: &[ValueId], out: &mut [f32]) -> Result<()> {
    let (a, b) = (step.floats(operands[0])?, step.floats(operands[1])?);
    step.team.rows(out, 1, 4096, |first, part| {
        part.copy_from_slice(&a[first..first + part.len()]);
        step.arch.dispatch(Sum { a: part, b: &b[first..] });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::testing::{Operand, archs, numbers, run};
    use crate::ops::{Add, Counts, Dim, Shape};

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
                let y = run(Add {}, &operands, Counts { tokens, texts: 1 }, arch);
                for ((y, a), b) in y.iter().zip(&a).zip(&b) {
                    assert!(*y == a + b || (y.is_nan() && (a + b).is_nan()));
                }
            }
        }
    }
}
