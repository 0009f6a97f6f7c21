//! Products of rows with the matrices of the experts that they are routed to.

use super::{ActivationKind, Counts, Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;

/// `y[t, r] = act(x[t, r] weight[e]^T + bias[e])`, where place `t k + r` of `[T, k]` is one of
/// `order[starts[e] .. starts[e + 1]]`, expert `e`'s, as [`Route`](super::Route) makes them.
///
/// Operands: `x [T, k, K]`, or `[T, K]` for the same row at all places of `t`; `weight [E, N, K]`, `order [T, k]`,
/// `starts [E + 1]`, then `bias [E, N]` if `bias`. Result: `[T, k, N]`. Sums run as in [`Linear`](super::Linear).
/// Same bits everywhere: each expert's product is that of a [`Linear`](super::Linear) by its matrix alone.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExpertLinear {
    /// Whether there is a bias operand.
    pub bias: bool,
    /// Applied to the biased product; `None` for the identity.
    pub activation: Option<ActivationKind>,
}

impl ExpertLinear {
    /// Experts, columns of the result and terms per sum, by the shape of the weight.
    pub fn sizes(weight: &Shape) -> [usize; 3] {
        let size = |axis: usize| weight.0.get(axis).map_or(1, |dim| dim.size(Counts::default()));
        [size(0), size(1), size(2)]
    }
}

impl Operation for ExpertLinear {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::EXPERTS);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"bias": true}"#, &[], &[])];
    fn signature(&self) -> Signature {
        const ALL: &[Operand] = &[
            Operand::rows("x").narrow(),
            Operand::matrix("weight").narrow(),
            Operand::permutation("order"),
            Operand::offsets_of_elements("starts", "order"),
            Operand::vector("bias").by_attribute(),
        ];
        Signature::of(if self.bias { ALL } else { &ALL[..4] })
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.check_end(self.activation)?;
        let [experts, n, k] = of.axes("weight")?[..] else { return Err(of.wrong("weight", "[experts, columns, K]")) };
        if experts == 0 {
            return Err(of.wrong("weight", "one expert at least"));
        }
        let [rows, Dim::Fixed(places)] = of["order"].0[..] else { return Err(of.wrong("order", "[rows, places]")) };
        let x = &of["x"];
        let shared = Shape::matrix(rows, k);
        let apart = Shape(vec![rows, Dim::Fixed(places), Dim::Fixed(k)]);
        if *x != shared && *x != apart {
            return Err(of.wrong("x", format!("{shared} or {apart} (order {}, weight {})", of["order"], of["weight"])));
        }
        of.expect("starts", &Shape::fixed(&[experts + 1]), "one more than there are experts")?;
        of.expect("bias", &Shape::fixed(&[experts, n]), "weight without its last axis")?;
        Ok(vec![apart.with_columns(n)])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        let [_, n, k] = ExpertLinear::sizes(operands[1]);
        2 * operands[2].elements(counts) as u64 * (n * k) as u64
    }
}
