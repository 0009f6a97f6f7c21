//! Products of queries and keys, head by head.

use super::{Counts, Operation, Shape, Strided};
use crate::{Error, Result};

/// `y[b, h, i, j] = scale * sum_d q[b, i, h, d] k[b, j, g(h), d]`, `g(h) = h * G / H`
///
/// Operands: `q [B, S, H, D]`, `k [B, K, G, D]`, `G` a divisor of `H`. Result: `[B, H, S, K]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttentionScores {
    /// Factor on the products, usually `1 / sqrt(D)`.
    pub scale: f32,
}

impl AttentionScores {
    /// The same as a product of matrices: batches are the batch's items, and within them the query heads.
    ///
    /// # Errors
    /// `InvalidArgument` naming the operand, the shape found and the shape expected.
    pub fn strided(&self, operands: &[&Shape]) -> Result<Strided> {
        let [q, k] = operands else {
            return Err(Error::InvalidArgument(format!("attention_scores: {} operands, expected 2", operands.len())));
        };
        let [batch, rows, heads, depth] = q.fixed_axes("attention_scores", "q")?[..] else {
            return Err(Error::InvalidArgument(format!("attention_scores: q has shape {q}, expected [B, S, H, D]")));
        };
        let axes = k.fixed_axes("attention_scores", "k")?;
        let (keys, groups) = match axes[..] {
            [items, keys, groups, columns]
                if (items, columns) == (batch, depth) && groups > 0 && heads.is_multiple_of(groups) =>
            {
                (keys, groups)
            }
            _ => {
                return Err(Error::InvalidArgument(format!(
                    "attention_scores: k has shape {k}, expected [{batch}, K, a divisor of {heads}, {depth}]"
                )));
            }
        };
        Ok(Strided {
            rows,
            columns: keys,
            depth,
            outer: batch,
            inner: heads,
            group: heads / groups,
            a: [heads * depth, 1, rows * heads * depth, depth],
            b: [groups * depth, 1, keys * groups * depth, depth],
            scale: self.scale,
        })
    }
}

impl Operation for AttentionScores {
    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let product = self.strided(operands)?;
        Ok(vec![Shape::fixed(&[product.outer, product.inner, product.rows, product.columns])])
    }

    fn flops(&self, operands: &[&Shape], _counts: Counts) -> u64 {
        self.strided(operands).map_or(0, |product| product.flops())
    }
}
