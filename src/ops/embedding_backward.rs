//! The gradient of a lookup in its table.

use super::{Counts, Dim, Operand, Operation, Shape};
use crate::{Error, Result};

/// Row `v` of the result is the sum of `g[order[i]]` over `i` in `starts[v]..starts[v + 1]`, in that order.
///
/// Operands: `g [T, D]`, `order [T]` (token places, sorted stably by id), `starts [V + 1]` (where each id's places
/// begin). Result: `[V, D]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingBackward {}

impl Operation for EmbeddingBackward {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("g"), Operand::index("order", "g"), Operand::offsets("starts", "order")] }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let [g, order, starts] = operands else {
            return Err(Error::InvalidArgument(format!("embedding_backward: {} operands, expected 3", operands.len())));
        };
        let wrong = |name: &str, found: &Shape, expected: &str| {
            Err(Error::InvalidArgument(format!("embedding_backward: {name} has shape {found}, expected {expected}")))
        };
        let [_, Dim::Fixed(columns)] = g.0[..] else {
            return wrong("g", g, "[tokens, columns]");
        };
        if order.0.len() != 1 {
            return wrong("order", order, "one axis");
        }
        match starts.0[..] {
            [Dim::Fixed(n)] if n > 0 => Ok(vec![Shape::fixed(&[n - 1, columns])]),
            _ => wrong("starts", starts, "[rows + 1]"),
        }
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        operands[0].elements(counts) as u64
    }
}
