//! Scaled dot-product attention over packed sequences.

use super::{Counts, Dim, Operation, Shape};
use crate::{Error, Result};

/// Attention of every query of a text to the keys of the text of the same number.
///
/// `y[i, h] = sum_j softmax_j(scale * q[i, h] . k[j, g(h)]) v[j, g(h)]`, `g(h) = h * kv_heads / heads`
///
/// Operands: `q [T, *]`, `k [S, *]`, `v [S, *]` (f32), `q_offsets [B + 1]`, `kv_offsets [B + 1]` (u32). The first three
/// may be one tensor, and so may the last two: head `h` of `q` is columns `q_column + h * head_dim ..` of its operand,
/// and so for `k` and `v`. Result: `[T, heads * head_dim]`; zeros for a text without keys. A key that is masked is not
/// touched, whatever it holds. Sums over keys run in blocks counted from the text's own start, so that a text's result
/// does not depend on its neighbours.
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
    #[serde(default)]
    pub q_column: usize,
    /// First column of the keys in their operand.
    #[serde(default)]
    pub k_column: usize,
    /// First column of the values in their operand.
    #[serde(default)]
    pub v_column: usize,
    /// Whether query `i` of a text sees its keys `0..=i` alone.
    #[serde(default)]
    pub causal: bool,
}

impl Operation for Attention {
    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let [q, k, v, q_offsets, kv_offsets] = operands else {
            return Err(Error::InvalidArgument(format!("attention: {} operands, expected 5", operands.len())));
        };
        if self.kv_heads == 0 || !self.heads.is_multiple_of(self.kv_heads) {
            return Err(Error::InvalidArgument(format!(
                "attention: {} heads are not a multiple of {} key-value heads",
                self.heads, self.kv_heads
            )));
        }
        // Keys and values are counted by the batch as the queries are, or their number is known.
        let keys = if matches!(k.rows(), Dim::Fixed(_)) { k.rows() } else { Dim::Tokens };
        let needs = [
            ("q", q, Dim::Tokens, self.q_column + self.heads * self.head_dim),
            ("k", k, keys, self.k_column + self.kv_heads * self.head_dim),
            ("v", v, keys, self.v_column + self.kv_heads * self.head_dim),
        ];
        for (name, shape, rows, columns) in needs {
            if shape.0.len() != 2 || shape.columns() < columns || shape.rows() != rows {
                return Err(Error::InvalidArgument(format!(
                    "attention: {name} has shape {shape}, expected [{rows}, at least {columns}]"
                )));
            }
        }
        let fixed = keys != Dim::Tokens && matches!(kv_offsets.0[..], [Dim::Fixed(_)]);
        for (name, offsets, fits) in [("q_offsets", q_offsets, false), ("kv_offsets", kv_offsets, fixed)] {
            if !fits && **offsets != Shape::vector(Dim::Boundaries) {
                return Err(Error::InvalidArgument(format!("attention: {name} has shape {offsets}, expected [B+1]")));
            }
        }
        Ok(vec![Shape::matrix(Dim::Tokens, self.heads * self.head_dim)])
    }

    /// Counted as if all texts had the batch's mean length.
    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        let keys = operands[1].rows().size(counts).div_ceil(counts.texts.max(1));
        let all = 4 * (counts.tokens * keys * self.heads * self.head_dim) as u64;
        if self.causal { all / 2 } else { all }
    }

    fn narrow(&self, place: usize) -> bool {
        place < 3
    }

    fn is_index(&self, place: usize, _operands: usize) -> bool {
        place >= 3
    }

    fn index_limits(&self, operands: &[&Shape]) -> Vec<(usize, usize)> {
        let rows = |place: usize| operands[place].rows().size(Counts::default());
        // An offset may stand behind the last row.
        if operands.len() == 5 { vec![(3, rows(0) + 1), (4, rows(1) + 1)] } else { Vec::new() }
    }
}
