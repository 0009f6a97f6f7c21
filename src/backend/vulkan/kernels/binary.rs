//! Dispatches of `binary`.

use super::elements::Elements;
use crate::backend::vulkan::generated::binary::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::{Binary, binary::broadcast};
use crate::{Error, Result};

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Binary) -> Result<()> {
    let walk = Elements::of(lowering.shape(node.result), lowering.capabilities)?;
    let axes = broadcast(lowering.shape(node.operands[0]), lowering.shape(node.operands[1]))?;
    if axes.len() > 4 {
        return Err(Error::Unsupported {
            what: node.name.clone(),
            reason: format!("b is repeated along {} separate axes of a, 4 at most", axes.len()),
        });
    }
    let size = |axis: usize| axes.get(axis).map_or(1, |axis| axis.size as u32);
    let stride = |axis: usize| axes.get(axis).map_or(0, |axis| axis.stride as u32);
    let vector = !axes.is_empty() && (axes.len() == 1 || size(0) % 4 == 0);
    let variant = lowering.select(&KERNEL, node)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        a: lowering.range(node.operands[0]),
        b: lowering.range(node.operands[1]),
        y: lowering.range(node.result),
    };
    let push = Push {
        rows_of: walk.rows_of,
        rows: walk.rows,
        columns: walk.columns,
        rows_per_group: walk.rows_per_group,
        size_0: size(0),
        size_1: size(1),
        size_2: size(2),
        stride_0: stride(0),
        stride_1: stride(1),
        stride_2: stride(2),
        stride_3: stride(3),
    };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { kind: op.kind as u32, axes: axes.len() as u32, vector }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [walk.groups, Extent::Fixed(1), Extent::Fixed(1)],
    })
}
