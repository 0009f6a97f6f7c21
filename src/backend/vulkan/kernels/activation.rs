//! Dispatches of `activation`.

use crate::Result;
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::Activation;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(_lowering: &mut Lowering<'_>, _node: &Node, _op: &Activation) -> Result<()> {
    todo!()
}
