//! Dispatches of `add`.

use super::activation::ELEMENTS_PER_GROUP;
use super::rows::Rows;
use crate::Result;
use crate::backend::vulkan::generated::add::{Bindings, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::Add;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, _op: &Add) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.result))?;
    let rows_per_group = (ELEMENTS_PER_GROUP / rows.columns.max(1)).max(1);
    let variant = KERNEL.select(lowering.capabilities)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        a: lowering.range(node.operands[0]),
        b: lowering.range(node.operands[1]),
        y: lowering.range(node.result),
    };
    let push = Push { rows_of: rows.rows_of(), rows: rows.fixed(), columns: rows.columns, rows_per_group };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Vec::new(),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [rows.tiles(rows_per_group), Extent::Fixed(1), Extent::Fixed(1)],
    })
}
