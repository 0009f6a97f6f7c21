//! Dispatches of `normalize`.

use super::rows::{LANES, Rows, rows_per_group};
use crate::Result;
use crate::backend::vulkan::generated::normalize::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::Normalize;

/// Columns, or fours of them, that a lane keeps at hand.
const MOST_HELD: u32 = 8;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Normalize) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.result))?;
    let vector = rows.columns % 4 == 0;
    let units = if vector { rows.columns / 4 } else { rows.columns };
    // As few lanes as can keep the row at hand, so that a workgroup has rows enough to hide its barriers.
    let lanes = [LANES, 2 * LANES, 4 * LANES].into_iter().find(|lanes| units <= MOST_HELD * lanes).unwrap_or(8 * LANES);
    let held = Some(units.div_ceil(lanes)).filter(|held| *held <= MOST_HELD).unwrap_or(0);
    let variant = lowering.select(&KERNEL, node)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        y: lowering.range(node.result),
    };
    let push = Push { rows_of: rows.rows_of(), rows: rows.fixed(), columns: rows.columns, eps: op.eps };
    let groups = match rows.tiles(rows_per_group(lanes)) {
        Extent::Fixed(groups) => Extent::Fixed(groups.min(lowering.capabilities.workgroup_count[0])),
        batch => batch,
    };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { lanes, vector, floor: op.floor as u32, held }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [groups, Extent::Fixed(1), Extent::Fixed(1)],
    })
}
