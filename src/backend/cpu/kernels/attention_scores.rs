//! Products of queries and keys, head by head: `matmul` with other strides.

use super::Scratched;
use super::matmul::products;
use crate::Result;
use crate::backend::cpu::step::Step;
use crate::ops::AttentionScores;

pub(super) fn attention_scores(step: &Step<'_>, op: &AttentionScores, (out, scratch): Scratched<'_>) -> Result<()> {
    let shapes = [step.shape(0), step.shape(1)];
    products(step, &op.strided(&shapes)?, scratch, out)
}
