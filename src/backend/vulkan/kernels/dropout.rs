//! Dispatches of `dropout`.

use super::elements::Elements;
use crate::Result;
use crate::backend::vulkan::generated::dropout::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::Dropout;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Dropout) -> Result<()> {
    let walk = Elements::of(lowering.shape(node.result), lowering.capabilities)?;
    let variant = lowering.select(&KERNEL, node)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        y: lowering.range(node.result),
    };
    let push = Push {
        rows_of: walk.rows_of,
        rows: walk.rows,
        columns: walk.columns,
        rows_per_group: walk.rows_per_group,
        p: op.p,
        seed_0: op.seed as u32,
        seed_1: (op.seed >> 32) as u32,
        offset_0: op.offset as u32,
        offset_1: (op.offset >> 32) as u32,
    };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants::default().values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [walk.groups, Extent::Fixed(1), Extent::Fixed(1)],
    })
}
