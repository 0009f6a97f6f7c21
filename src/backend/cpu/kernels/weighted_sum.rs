//! `y[t] = sum_r weight[t, r] x[t, r] + bias`

use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::WeightedSum;

pub(super) fn weighted_sum(step: &Step<'_>, op: &WeightedSum, out: &mut [f32]) -> Result<()> {
    let (x, weight) = (step.floats(0)?, step.floats(1)?);
    let bias = if op.bias { Some(step.floats(2)?) } else { None };
    let (each, columns) = (step.shape(1).columns(), step.shape(0).columns());
    step.rows(out, columns, 16).each(inlined!(|number, y| {
        y.fill(0.0);
        for place in number * each..(number + 1) * each {
            for (y, x) in y.iter_mut().zip(&x[place * columns..]) {
                *y += weight[place] * x;
            }
        }
        for (y, bias) in y.iter_mut().zip(bias.unwrap_or_default()) {
            *y += bias;
        }
    }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::simd::Arch;
    use crate::backend::cpu::testing::{Operand, numbers, run};
    use crate::ops::{Counts, Dim, Shape};

    #[test]
    fn rows_are_added_in_order_and_then_the_bias() {
        let (each, columns) = (3, 21);
        for tokens in [0, 1, 40] {
            let (x, weight) = (numbers(tokens * each * columns, 1), numbers(tokens * each, 2));
            let bias = numbers(columns, 3);
            let operands = [
                Operand::Floats(Shape(vec![Dim::Tokens, Dim::Fixed(each), Dim::Fixed(columns)]), &x),
                Operand::Floats(Shape::matrix(Dim::Tokens, each), &weight),
                Operand::Weight(&[21], &bias),
            ];
            let y = run(WeightedSum { bias: true }, &operands, Counts::new(tokens, 1), Arch::new());
            for (at, y) in y.iter().enumerate() {
                let (t, c) = (at / columns, at % columns);
                let terms = (0..each).map(|r| weight[t * each + r] * x[(t * each + r) * columns + c]);
                assert_eq!(*y, terms.fold(0.0, |sum, term| sum + term) + bias[c]);
            }
        }
    }
}
