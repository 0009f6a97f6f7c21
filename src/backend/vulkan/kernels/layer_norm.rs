//! Dispatches of `layer_norm`.

use crate::Result;
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::LayerNorm;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(_lowering: &mut Lowering<'_>, _node: &Node, _op: &LayerNorm) -> Result<()> {
    todo!()
}
