//! Dispatches of `normalize`.

use super::rows::{LANES, Rows, rows_per_group};
use crate::Result;
use crate::backend::vulkan::generated::normalize::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::Normalize;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Normalize) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.result))?;
    let variant = KERNEL.select(lowering.capabilities)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        y: lowering.range(node.result),
    };
    let push = Push { rows_of: rows.rows_of(), rows: rows.fixed(), columns: rows.columns, eps: op.eps };
    let groups = match rows.tiles(rows_per_group(LANES)) {
        Extent::Fixed(groups) => Extent::Fixed(groups.min(lowering.capabilities.workgroup_count[0])),
        batch => batch,
    };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { lanes: LANES, vector: (rows.columns % 4 == 0).into(), floor: op.floor as u32 }
            .values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [groups, Extent::Fixed(1), Extent::Fixed(1)],
    })
}
