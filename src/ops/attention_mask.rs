//! Attention scores with a large negative value added for hidden keys.

use super::{Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;

/// `y[.., i, j] = scores[.., i, j] + mask_value` where key `j` is hidden from row `i`, else `scores[.., i, j]`.
///
/// Operands: `scores [B, *, S, K]` or `[B, S, K]`, then `mask [B, K]` (f32) if there is one. Key `j` is hidden where
/// `causal` and `j > i`, and where `mask[b, j]` is 0.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttentionMask {
    /// Whether row `i` sees only keys `0..=i`; default true.
    pub causal: bool,
    /// Added to hidden scores, once; default -1e9.
    pub mask_value: f32,
}

impl Default for AttentionMask {
    fn default() -> Self {
        AttentionMask { causal: true, mask_value: -1e9 }
    }
}

impl Operation for AttentionMask {
    const EVERYWHERE: super::Coverage = super::Coverage::OF_PARTS;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 3, 4, 5], &[2, 5]], &[0])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("scores"), Operand::rows("mask").optional()]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let axes = of.axes("scores")?;
        if !matches!(axes.len(), 3 | 4) {
            return Err(of.wrong("scores", "[B, H, S, K] or [B, S, K]"));
        }
        let expected = Shape::fixed(&[axes[0], axes[axes.len() - 1]]);
        of.expect("mask", &expected, "first and last axis of scores")?;
        Ok(vec![of["scores"].clone()])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        Some(Vjp::passed(operands.len()))
    }
}
