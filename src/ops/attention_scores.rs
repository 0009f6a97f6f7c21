//! Products of queries and keys per head.

use super::{Counts, Dim, Operand, Operation, Shape, Shapes, Signature, Strided};
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

/// The shapes `[batch, rows, heads, depth]` and `[batch, keys, groups, depth]`.
fn axes<'a>(operands: &[&'a Shape]) -> Result<(&'a Shape, &'a Shape)> {
    let (q, k) = (operands[0], operands[1]);
    let [batch, _, heads @ Dim::Fixed(all), depth] = q.0[..] else {
        return Err(Error::InvalidArgument(format!("attention_scores: q has shape {q}, expected [B, S, H, D]")));
    };
    match k.0[..] {
        [items, _, Dim::Fixed(groups), columns]
            if (items, columns) == (batch, depth) && groups > 0 && all.is_multiple_of(groups) =>
        {
            Ok((q, k))
        }
        _ => Err(Error::InvalidArgument(format!(
            "attention_scores: k has shape {k}, expected [{batch}, K, a divisor of {heads}, {depth}]"
        ))),
    }
}

impl AttentionScores {
    /// The same as a batched matrix product: the outer batches are the batch's items, the inner ones the query heads.
    ///
    /// # Errors
    /// `InvalidArgument` naming the operand, the shape found and the shape expected.
    pub fn strided(&self, operands: &[&Shape]) -> Result<Strided> {
        let (q, k) = axes(operands)?;
        let (a, b) = (q.fixed_axes("attention_scores", "q")?, k.fixed_axes("attention_scores", "k")?);
        let (batch, rows, heads, depth) = (a[0], a[1], a[2], a[3]);
        let (keys, groups) = (b[1], b[2]);
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
    const EVERYWHERE: super::Coverage = super::Coverage::OF_PARTS;
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::PARTS);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"scale": 1.0}"#, &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("q"), Operand::rows("k")]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let (q, k) = axes(of.all())?;
        Ok(vec![Shape(vec![q.0[0], q.0[2], q.0[1], k.0[1]])])
    }

    fn flops(&self, operands: &[&Shape], _counts: Counts) -> u64 {
        self.strided(operands).map_or(0, |product| product.flops())
    }
}
