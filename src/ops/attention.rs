//! Scaled dot-product attention over packed sequences.

use super::{Counts, Dim, Operation, Shape};
use crate::{Error, Result};

/// Attention of every token to all tokens of its own text.
///
/// `y[i, h] = sum_j softmax_j(scale * q[i, h] . k[j, g(h)]) v[j, g(h)]`, `g(h) = h * kv_heads / heads`
///
/// Operands: `q [T, *]`, `k [T, *]`, `v [T, *]` (f32), `offsets [B + 1]` (u32). The three may be one tensor:
/// head `h` of `q` is columns `q_column + h * head_dim ..` of its operand, and so for `k` and `v`.
/// Result: `[T, heads * head_dim]`. Sums over keys run in blocks counted from the text's own start, so that
/// a text's result does not depend on its neighbours.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Columns of one head.
    pub head_dim: usize,
    /// Factor on the scores, usually `1 / sqrt(head_dim)`.
    pub scale: f32,
    /// First column of the queries in their operand.
    pub q_column: usize,
    /// First column of the keys in their operand.
    pub k_column: usize,
    /// First column of the values in their operand.
    pub v_column: usize,
}

impl Operation for Attention {
    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let [q, k, v, offsets] = operands else {
            return Err(Error::InvalidArgument(format!("attention: {} operands, expected 4", operands.len())));
        };
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(Error::InvalidArgument(format!(
                "attention: {} heads are not a multiple of {} key-value heads",
                self.heads, self.kv_heads
            )));
        }
        let needs = [
            ("q", q, self.q_column + self.heads * self.head_dim),
            ("k", k, self.k_column + self.kv_heads * self.head_dim),
            ("v", v, self.v_column + self.kv_heads * self.head_dim),
        ];
        for (name, shape, columns) in needs {
            if shape.columns() < columns || shape.rows() != Dim::Tokens {
                return Err(Error::InvalidArgument(format!(
                    "attention: {name} has shape {shape}, expected [T, at least {columns}]"
                )));
            }
        }
        if **offsets != Shape::vector(Dim::Boundaries) {
            return Err(Error::InvalidArgument(format!("attention: offsets has shape {offsets}, expected [B+1]")));
        }
        Ok(vec![Shape::matrix(Dim::Tokens, self.heads * self.head_dim)])
    }

    /// Counted as if all texts had the batch's mean length.
    fn flops(&self, _operands: &[&Shape], counts: Counts) -> u64 {
        let length = counts.tokens.div_ceil(counts.texts.max(1));
        4 * (counts.tokens * length * self.heads * self.head_dim) as u64
    }

    fn is_index(&self, place: usize, _operands: usize) -> bool {
        place >= 3
    }

    fn index_limits(&self, operands: &[&Shape]) -> Vec<(usize, usize)> {
        operands.first().map(|q| (3, q.rows().size(Counts::default()) + 1)).into_iter().collect()
    }
}
