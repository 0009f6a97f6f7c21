//! Products of queries and keys, head by head: those of `matmul` with other strides.

use super::matmul::products;
use crate::Result;
use crate::backend::cpu::floats::Floats;
use crate::backend::cpu::step::Step;
use crate::graph::ValueId;
use crate::ops::AttentionScores;

pub(super) fn run(
    step: &Step<'_>,
    op: &AttentionScores,
    operands: &[ValueId],
    scratch: &mut Floats,
    out: &mut [f32],
) -> Result<()> {
    let shapes = [step.shape(operands[0]), step.shape(operands[1])];
    products(step, &op.strided(&shapes)?, operands, scratch, out)
}
