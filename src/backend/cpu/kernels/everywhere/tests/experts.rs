use super::bits;
use crate::backend::cpu::testing::{Operand, numbers, run_everywhere};
use crate::ops::{ActivationKind, Counts, Dim, ExpertLinear, Linear, Shape, WeightedSum};

#[test]
fn an_experts_product_is_that_of_linear() {
    let ([experts, n, k], tokens) = ([4, 35, 40], 700);
    let (x, bias) = (numbers(tokens * k, 1), numbers(experts * n, 3));
    // Matrices of sizes and balances of their own, of which the third has no rows.
    let power = |at: usize| 2f32.powi((at / (n * k) * 20 + at % k % 3 * (at / (n * k))) as i32 - 40);
    let weight: Vec<f32> = numbers(experts * n * k, 2).iter().enumerate().map(|(at, w)| w * power(at)).collect();
    let expert = |place: usize| [0, 1, 3][place % 3];
    let mut order: Vec<u32> = (0..2 * tokens as u32).collect();
    order.sort_by_key(|place| expert(*place as usize));
    let starts: Vec<u32> =
        (0..=experts).map(|e| order.partition_point(|place| expert(*place as usize) < e) as u32).collect();
    let (shape, narrow) = ([experts, n, k], [experts, n]);
    let activation = Some(ActivationKind::Silu);
    for constant in [false, true] {
        let given = |axes, values| match constant {
            true => Operand::Weight(axes, values),
            false => Operand::Floats(Shape::fixed(axes), values),
        };
        let operands = [
            Operand::Floats(Shape::matrix(Dim::Tokens, k), &x),
            given(&shape, &weight),
            Operand::Indices(Shape::matrix(Dim::Tokens, 2), &order),
            Operand::Indices(Shape::fixed(&[experts + 1]), &starts),
            given(&narrow, &bias),
        ];
        let y = run_everywhere(ExpertLinear { bias: true, activation }, &operands, Counts::new(tokens, 1));
        for e in 0..experts {
            let (matrix, vector) = (&weight[e * n * k..][..n * k], &bias[e * n..][..n]);
            let operands = [
                Operand::Floats(Shape::matrix(Dim::Tokens, k), &x),
                Operand::Floats(Shape::fixed(&[n, k]), matrix),
                Operand::Floats(Shape::fixed(&[n]), vector),
            ];
            let op = Linear { bias: true, activation, ..Linear::default() };
            let expected = run_everywhere(op, &operands, Counts::new(tokens, 1));
            for place in (0..2 * tokens).filter(|place| expert(*place) == e) {
                assert_eq!(bits(&y[place * n..][..n]), bits(&expected[place / 2 * n..][..n]), "{e}: {place}");
            }
        }
    }
}

#[test]
fn rows_are_added_in_order_after_their_products_are_rounded() {
    let (tokens, each, columns) = (90, 3, 21);
    let (mut x, weight) = (numbers(tokens * each * columns, 1), numbers(tokens * each, 2));
    let bias = numbers(columns, 3);
    x[5] = 0.0;
    let settled = x.clone();
    x[5] = 1e-31;
    let operands = [
        Operand::Floats(Shape(vec![Dim::Tokens, Dim::Fixed(each), Dim::Fixed(columns)]), &x),
        Operand::Floats(Shape::matrix(Dim::Tokens, each), &weight),
        Operand::Weight(&[21], &bias),
    ];
    let y = run_everywhere(WeightedSum { bias: true }, &operands, Counts::new(tokens, 1));
    for (at, y) in y.iter().enumerate() {
        let (t, c) = (at / columns, at % columns);
        let terms = (0..each).map(|r| weight[t * each + r] * settled[(t * each + r) * columns + c]);
        assert_eq!(*y, terms.fold(0.0, |sum, term| sum + term) + bias[c]);
    }
}
