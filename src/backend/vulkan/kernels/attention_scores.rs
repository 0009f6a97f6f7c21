//! Dispatches of `attention_scores`: that of `matmul`.

use super::matmul::products;
use crate::Result;
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::AttentionScores;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &AttentionScores) -> Result<()> {
    let product = op.strided(&[lowering.shape(node.operands[0]), lowering.shape(node.operands[1])])?;
    products(lowering, node, &product)
}
