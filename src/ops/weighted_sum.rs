//! Weighted sums of a few rows each.

use super::definition::{Origin, Term};
use super::{BinaryKind, Dim, Operand, Operation, Reduce, ReduceKind, Shape, Shapes, Signature, Vjp};
use crate::Result;

/// `y[t] = sum_r weight[t, r] x[t, r] + bias`, `r` in order from zero.
///
/// Operands: `x [T, k, N]`, `weight [T, k]`, then `bias [N]` if `bias`. Result: `[T, N]`. Same bits everywhere: products are
/// rounded before they are added, and the bias is the last term.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WeightedSum {
    /// Whether there is a bias operand.
    pub bias: bool,
}

impl Operation for WeightedSum {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] =
        &[("{}", &[&[2, 3, 4], &[2, 3]], &[0, 1]), (r#"{"bias": true}"#, &[&[2, 3, 4], &[2, 3], &[4]], &[0, 1, 2])];
    fn signature(&self) -> Signature {
        const ALL: &[Operand] = &[
            Operand::rows("x").narrow(),
            Operand::rows("weight"),
            Operand::vector("bias").per_column("x").by_attribute(),
        ];
        Signature::of(if self.bias { ALL } else { &ALL[..2] }).flops(2)
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let [rows, Dim::Fixed(each), Dim::Fixed(columns)] = of["x"].0[..] else {
            return Err(of.wrong("x", "[rows, rows of a sum, columns]"));
        };
        of.expect("weight", &Shape::matrix(rows, each), "x without its last axis")?;
        Ok(vec![Shape::matrix(rows, columns)])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let shape = operands[0];
        let &[rows, each, columns] = &shape.0[..] else { return None };
        let mut vjp = Vjp::new(operands.len());
        let whole = Term::whole(Vjp::gradient(operands.len()));
        let g = whole.clone().seen(Shape(vec![rows, Dim::Fixed(1), columns]));
        let weight = Term::whole(Origin::Operand(1)).seen(Shape(vec![rows, each, Dim::Fixed(1)]));
        let ones = vjp.filled(1.0, shape.clone());
        let spread = vjp.binary(BinaryKind::Multiply, ones, weight);
        let by_x = vjp.binary(BinaryKind::Multiply, spread, g.clone());
        vjp.give(0, by_x);
        let products = vjp.binary(BinaryKind::Multiply, Term::whole(Origin::Operand(0)), g);
        let by_weight = vjp.step(Reduce::along(2, ReduceKind::Sum), [products]);
        vjp.give(1, by_weight);
        if self.bias {
            let by_bias = vjp.step(Reduce::rows(ReduceKind::Sum), [whole]);
            vjp.give(2, by_bias);
        }
        Some(vjp)
    }
}
