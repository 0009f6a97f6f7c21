//! Scores of attention with those of hidden keys pushed down.

use super::{Counts, Operand, Operation, Shape};
use crate::{Error, Result};

/// `y[.., i, j] = scores[.., i, j] + mask_value` where key `j` is hidden from row `i`, else `scores[.., i, j]`.
///
/// Operands: `scores [B, *, S, K]` or `[B, S, K]`, then `mask [B, K]` (f32) if there is one. Key `j` is hidden where
/// `causal` and `j > i`, and where `mask[b, j]` is 0.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AttentionMask {
    /// Whether row `i` sees keys `0..=i` alone; default true.
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
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("scores"), Operand::rows("mask").optional()] }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let (scores, mask) = match operands {
            [scores] => (scores, None),
            [scores, mask] => (scores, Some(mask)),
            _ => {
                return Err(Error::InvalidArgument(format!(
                    "attention_mask: {} operands, expected 1 or 2",
                    operands.len()
                )));
            }
        };
        let axes = scores.fixed_axes("attention_mask", "scores")?;
        if !matches!(axes.len(), 3 | 4) {
            return Err(Error::InvalidArgument(format!(
                "attention_mask: scores has shape {scores}, expected [B, H, S, K] or [B, S, K]"
            )));
        }
        let expected = Shape::fixed(&[axes[0], axes[axes.len() - 1]]);
        match mask {
            Some(mask) if **mask != expected => Err(Error::InvalidArgument(format!(
                "attention_mask: mask has shape {mask}, expected {expected} (scores {scores})"
            ))),
            _ => Ok(vec![(*scores).clone()]),
        }
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        operands[0].elements(counts) as u64
    }
}
