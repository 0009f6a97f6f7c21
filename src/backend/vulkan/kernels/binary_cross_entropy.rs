//! Dispatches of `binary_cross_entropy`.

use super::elements::Elements;
use crate::Result;
use crate::backend::vulkan::generated::binary_cross_entropy::{Bindings, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::BinaryCrossEntropy;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(
    lowering: &mut Lowering<'_>,
    node: &Node,
    _op: &BinaryCrossEntropy,
) -> Result<()> {
    let walk = Elements::of(lowering.shape(node.result), lowering.capabilities)?;
    let variant = lowering.select(&KERNEL, node)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        p: lowering.range(node.operands[0]),
        t: lowering.range(node.operands[1]),
        y: lowering.range(node.result),
    };
    let push =
        Push { rows_of: walk.rows_of, rows: walk.rows, columns: walk.columns, rows_per_group: walk.rows_per_group };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Vec::new(),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [walk.groups, Extent::Fixed(1), Extent::Fixed(1)],
    })
}
