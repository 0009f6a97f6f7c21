//! Dispatches of `reduce`.

use super::rows::spread;
use crate::Result;
use crate::backend::vulkan::generated::reduce::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::generated::reduce_quads;
use crate::backend::vulkan::kernel::Dispatch;
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::Reduce;
use crate::ops::reduce::Stage;

/// Invocations of a workgroup that take neighbouring columns, and those that share a column: by the shape alone. With
/// quads, a column is four.
fn layout(n: usize, inner: usize) -> (u32, u32) {
    let columns = inner.next_power_of_two().min(32);
    // Sixteen elements an invocation: fewer, and the tree over the lanes takes longer than the loads.
    let lanes = n.div_ceil(16).next_power_of_two().min(256 / columns);
    (columns as u32, lanes as u32)
}

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Reduce) -> Result<()> {
    let shape = lowering.shape(node.operands[0]);
    let [outer, n, mut inner] = op.axes(shape);
    let (stage, chunk, all, weighted) = match op.stage {
        Stage::Whole => (0, n.max(1), n, node.operands.len() > 1),
        Stage::Chunks => (1, Reduce::chunk(n), n, node.operands.len() > 1),
        Stage::Join { n: all, weighted } => {
            // Behind the axis of parts stands that of their planes.
            inner /= op.planes(weighted);
            (2, n.max(1), all, weighted)
        }
    };
    let chunks = n.div_ceil(chunk).max(1);
    // A user's shader has the interface of the one for single columns.
    let quads = inner > 0 && inner.is_multiple_of(4) && lowering.replaced(&KERNEL, node).is_none();
    if quads {
        inner /= 4;
    }
    let (columns, lanes) = layout(n.min(chunk), inner);
    let planes = op.planes(weighted) as u32;
    let units = 256 / (columns * lanes);
    let kernel = if quads { &reduce_quads::KERNEL } else { &KERNEL };
    let variant = lowering.select(kernel, node)?;
    let bindings = Bindings {
        x: lowering.range(node.operands[0]),
        // Nothing reads them without weights, but a binding must hold something.
        weights: lowering.range(*node.operands.get(1).unwrap_or(&node.operands[0])),
        y: lowering.range(node.result),
    };
    let push = Push {
        outer: outer as u32,
        n: n as u32,
        inner: inner as u32,
        chunk: chunk as u32,
        chunks: chunks as u32,
        all: all as u32,
        part: Reduce::chunk(all) as u32,
    };
    let groups = (outer * chunks).div_ceil(units as usize) as u64 * inner.div_ceil(columns as usize) as u64;
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { lanes, columns, kind: op.kind as u32, weighted, stage, planes }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: spread(groups),
    })
}
