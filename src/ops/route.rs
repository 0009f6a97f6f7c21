//! Experts for the rows of a mixture, by their scores.

use super::{Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// Routes each row to the `top_k` experts of largest score: with `p = softmax(scores)`, `weight` holds their `p`, the
/// largest first, divided by their sum if `normalized`. Of equal scores the lower expert comes first, and NaN counts as
/// the largest.
///
/// Operands: `scores [T, E]`. Results: `weight [T, top_k]` (float32); `order [T, top_k]` (int32), the places of `weight`
/// sorted by expert, those of one expert in ascending order; `starts [E + 1]` (int32): expert `e` has the places
/// `order[starts[e] .. starts[e + 1]]`. Sums run over experts in order, with `normalized` over places. Same bits
/// everywhere: scores below 2^-100 are equal to 0, and a weight is a quotient that is rounded once.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Experts of a row.
    pub top_k: usize,
    /// Whether the weights of a row add up to one; default false.
    #[serde(default)]
    pub normalized: bool,
}

impl Operation for Route {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::EXPERTS);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"top_k": 1}"#, &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("scores").narrow()])
        .gives(&[
            Operand::rows("weight").stored(DType::F32),
            Operand::permutation("order").stored(DType::I32),
            Operand::offsets_of_elements("starts", "order").stored(DType::I32),
        ])
        .scratch(&["chosen", "counts_of_blocks"])
        .flops(5);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let [rows, Dim::Fixed(experts)] = of["scores"].0[..] else { return Err(of.wrong("scores", "[rows, experts]")) };
        if !(1..=experts).contains(&self.top_k) {
            return Err(of.fault(format!("top_k is {}, expected 1 to {experts}, the experts", self.top_k)));
        }
        let places = Shape::matrix(rows, self.top_k);
        Ok(vec![places.clone(), places, Shape::fixed(&[experts + 1])])
    }

    /// The experts of each row, and of each block of rows how many of these are each expert's.
    fn scratch(&self, operands: &[&Shape], _: DType) -> Vec<Shape> {
        vec![operands[0].with_columns(self.top_k), operands[0].clone()]
    }
}
