//! Dispatches of `cross_entropy`.

use super::rows::{Held, Rows};
use crate::Result;
use crate::backend::vulkan::generated::cross_entropy::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::CrossEntropy;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &CrossEntropy) -> Result<()> {
    let columns = lowering.shape(node.operands[0]).columns() as u32;
    let rows = Rows { columns, ..Rows::of_elements(lowering.shape(node.operands[1]))? };
    let form = Held::of(columns);
    let variant = lowering.select(&KERNEL, node)?;
    let weight = node.operands.get(2);
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        targets: lowering.range(node.operands[1]),
        // Nothing reads it without weights, but a binding must hold something.
        weight: lowering.range(*weight.unwrap_or(&node.operands[0])),
        y: lowering.range(node.result),
    };
    let (weighted, smoothed) = (weight.is_some(), op.label_smoothing != 0.0);
    let push = Push { rows_of: rows.rows_of(), rows: rows.fixed(), columns, label_smoothing: op.label_smoothing };
    let Held { lanes, quads, held, vector } = form;
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { lanes, quads, held, vector, weighted, smoothed }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: form.grid(rows),
    })
}
