//! Dispatches of `embedding_backward`.

use super::rows::{Rows, spread};
use crate::Result;
use crate::backend::vulkan::generated::embedding_backward::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::EmbeddingBackward;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(
    lowering: &mut Lowering<'_>,
    node: &Node,
    _op: &EmbeddingBackward,
) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.result))?;
    let columns = rows.columns;
    let quads = columns.div_ceil(4);
    let lanes = quads.next_power_of_two().clamp(1, 256);
    let blocks = quads.div_ceil(lanes);
    let variant = lowering.select(&KERNEL, node)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        g: lowering.range(node.operands[0]),
        order: lowering.range(node.operands[1]),
        starts: lowering.range(node.operands[2]),
        y: lowering.range(node.result),
    };
    let places = Rows::of_elements(lowering.shape(node.operands[1]))?;
    let push = Push {
        rows_of: rows.rows_of(),
        rows: rows.fixed(),
        columns,
        places_of: places.rows_of(),
        places: places.fixed(),
        blocks,
    };
    let groups = u64::from(rows.fixed().div_ceil(256 / lanes)) * u64::from(blocks);
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { lanes, vector: columns.is_multiple_of(4) }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: spread(groups),
    })
}
