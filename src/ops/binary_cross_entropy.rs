//! Binary cross entropy of probabilities.

use super::{Counts, Operand, Operation, Shape};

/// `y = -(t max(log p, -100) + (1 - t) max(log(1 - p), -100))`, elementwise. Operands: `p`, `t`, of equal shape.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BinaryCrossEntropy {}

impl Operation for BinaryCrossEntropy {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("p"), Operand::rows("t").like("p")] }
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        5 * operands[0].elements(counts) as u64
    }
}
