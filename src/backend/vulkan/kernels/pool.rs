//! Dispatches of `pool`: one a mode, each writing its own columns.

use crate::Result;
use crate::backend::vulkan::generated::pool::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::{Dim, Pool};

/// Columns one workgroup takes.
const COLUMNS_PER_GROUP: u32 = 64;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Pool) -> Result<()> {
    let columns = lowering.shape(node.operands[0]).columns() as u32;
    let variant = lowering.select(&KERNEL, node)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        offsets: lowering.range(node.operands[1]),
        first: lowering.range(node.operands[2]),
        y: lowering.range(node.result),
    };
    for (place, mode) in op.modes.iter().enumerate() {
        let push = Push { columns, y_columns: columns * op.modes.len() as u32, y_column: columns * place as u32 };
        lowering.push(Dispatch {
            label: node.name.clone(),
            variant,
            constants: Constants { mode: *mode as u32 }.values(variant),
            bindings: bindings.into_array().to_vec(),
            push: bytemuck::bytes_of(&push).to_vec(),
            grid: [
                Extent::Fixed(columns.div_ceil(COLUMNS_PER_GROUP)),
                Extent::Tiles { dim: Dim::Texts, per: 1 },
                Extent::Fixed(1),
            ],
        })?;
    }
    Ok(())
}
