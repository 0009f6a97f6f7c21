//! Dispatches of `bias_gelu`.

use super::elements::Elements;
use crate::Result;
use crate::backend::vulkan::generated::bias_gelu::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::BiasGelu;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &BiasGelu) -> Result<()> {
    let walk = Elements::of(lowering.shape(node.result), lowering.capabilities)?;
    let width = lowering.shape(node.result).columns() as u32;
    let variant = lowering.select(&KERNEL, node)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        bias: lowering.range(node.operands[1]),
        y: lowering.range(node.result),
    };
    let push = Push {
        rows_of: walk.rows_of,
        rows: walk.rows,
        columns: walk.columns,
        rows_per_group: walk.rows_per_group,
        a: 1.0,
        b: 1.0,
        width,
    };
    let constants = Constants { activation: op.approximate.kind() as u32, vector: width.is_multiple_of(4) };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: constants.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [walk.groups, Extent::Fixed(1), Extent::Fixed(1)],
    })
}
