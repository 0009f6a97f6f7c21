//! Binary cross entropy of probabilities.

use super::{Operand, Operation, Signature};

/// `y = -(t max(log p, -100) + (1 - t) max(log(1 - p), -100))`, elementwise. Operands: `p`, `t`, of equal shape.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinaryCrossEntropy {}

impl Operation for BinaryCrossEntropy {
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("p"), Operand::rows("t").like("p")]).flops(5);
}
