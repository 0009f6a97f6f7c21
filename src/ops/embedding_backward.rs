//! Gradient of an embedding lookup in its table.

use super::{Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;

/// Row `v` of the result is the sum of `g[order[i]]` over `i` in `starts[v]..starts[v + 1]`, in that order.
///
/// Operands: `g [T, D]`, `order [T]` (token positions, sorted stably by id), `starts [V + 1]` (first index in `order`
/// of each id). Result: `[V, D]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingBackward {}

impl Operation for EmbeddingBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("g"), Operand::index("order", "g"), Operand::offsets("starts", "order")]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let [_, Dim::Fixed(columns)] = of["g"].0[..] else { return Err(of.wrong("g", "[tokens, columns]")) };
        if of["order"].0.len() != 1 {
            return Err(of.wrong("order", "one axis"));
        }
        match of["starts"].0[..] {
            [Dim::Fixed(n)] if n > 0 => Ok(vec![Shape::fixed(&[n - 1, columns])]),
            _ => Err(of.wrong("starts", "[rows + 1]")),
        }
    }
}
