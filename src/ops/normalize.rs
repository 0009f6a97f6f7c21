//! Division of each row by its Euclidean norm.

use super::{Operand, Operation, Signature};

/// How division by zero is avoided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum Floor {
    /// The divisor is `max(||x||, eps)`.
    #[default]
    Max = 0,
    /// The divisor is `||x|| + eps`.
    Add = 1,
}

/// `y = x / max(||x||, eps)` over the last axis, or `x / (||x|| + eps)`. Operands: `x [..., N]`.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Normalize {
    /// Smallest divisor, or the term added to it; default 1e-12, as in sentence-transformers.
    pub eps: f32,
    /// Which of the two forms; default `max`.
    pub floor: Floor,
}

impl Default for Normalize {
    fn default() -> Self {
        Normalize { eps: 1e-12, floor: Floor::Max }
    }
}

impl Operation for Normalize {
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("x")]).flops(3);
}
