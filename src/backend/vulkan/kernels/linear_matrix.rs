//! Dispatches of `linear` in float16 on matrix cores: one.

use super::rows::Rows;
use crate::Result;
use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::generated::linear_matrix::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::{DType, Node};
use crate::ops::{ActivationKind, Counts, Dim, Linear, Residual, Shape};

/// Invocations of a workgroup.
const INVOCATIONS: u32 = 256;
/// Row tiles that walk all columns together.
const GROUP: u32 = 8;
/// Fewer tiles than this leave multiprocessors idle: smaller ones are taken, which give the same bits.
const FEW_TILES: u32 = 128;

/// Whether the device multiplies operands of these shapes so.
pub(in crate::backend::vulkan) fn fits(operands: &[&Shape], capabilities: &Capabilities) -> bool {
    let [x, weight, ..] = operands else { return false };
    let subgroups = INVOCATIONS.checked_div(capabilities.subgroup_size);
    let bytes = |shape: &Shape| 2 * shape.elements(Counts::default()) as u64;
    matches!(subgroups, Some(4 | 8))
        && KERNEL.own(DType::F16, capabilities).is_ok()
        && x.columns() > 0
        && x.columns().is_multiple_of(16)
        && weight.rows().size(Counts::default()).is_multiple_of(8)
        && bytes(x).max(bytes(weight)) <= capabilities.storage_buffer_range
}

/// Adds the node's dispatch.
pub(super) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Linear) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.result))?;
    let weight = lowering.shape(node.operands[1]);
    let (n, k) = (weight.rows().size(Counts::default()) as u32, weight.columns() as u32);
    let tiles = |side: u32| match rows.count {
        Dim::Fixed(m) => (m as u32).div_ceil(side) * n.div_ceil(side),
        _ => FEW_TILES,
    };
    let side = if tiles(128) < FEW_TILES { 64 } else { 128 };
    let variant = lowering.select(&KERNEL, node)?;
    let constants = Constants {
        bias: op.bias,
        activation: op.activation.unwrap_or(ActivationKind::Identity) as u32,
        residual: op.residual == Residual::Added,
        tile_m: side,
        tile_n: side,
        tile_k: [64, 32, 16].into_iter().find(|step| k.is_multiple_of(*step)).unwrap_or(16),
        subgroups: INVOCATIONS / lowering.capabilities.subgroup_size.max(1),
    };
    let x = lowering.range(node.operands[0]);
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x,
        weight: lowering.range(node.operands[1]),
        // Without bias or residual, something that is read anyway stands in their place.
        bias: if op.bias { lowering.range(node.operands[2]) } else { x },
        residual: op.residual_operand().map_or(x, |place| lowering.range(node.operands[place])),
        y: lowering.range(node.result),
    };
    let push = Push { rows_of: rows.rows_of(), rows: rows.fixed(), n, k };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: constants.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [Extent::Fixed(GROUP * n.div_ceil(side)), rows.tiles(GROUP * side), Extent::Fixed(1)],
    })
}
