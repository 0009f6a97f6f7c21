//! Dispatches of `rope`: one.

use super::rows::walkers;
use crate::backend::vulkan::generated::rope::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::{Error, Result};

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node) -> Result<()> {
    let shape = lowering.shape(node.operands[0]);
    let [batch, rows, heads, columns] = shape.fixed_axes("rope", "x")?[..] else {
        return Err(Error::InvalidArgument(format!("rope: x has shape {shape}, expected [B, S, H, D]")));
    };
    let vector = columns.is_multiple_of(8);
    let row_pairs = if vector { columns / 8 } else { columns / 2 };
    let shared = lowering.shape(node.operands[1]).0.len() == 2;
    let variant = lowering.select(&KERNEL, node)?;
    if variant.stored.is_narrow() && !vector {
        let what = format!("rope in {}", variant.stored.name());
        return Err(Error::Unsupported { what, reason: format!("a head has {columns} columns, no multiple of eight") });
    }
    let bindings = Bindings {
        x: lowering.range(node.operands[0]),
        cosine: lowering.range(node.operands[1]),
        sine: lowering.range(node.operands[2]),
        y: lowering.range(node.result),
    };
    let push = Push {
        pairs: (batch * rows * heads * row_pairs) as u32,
        row_pairs: row_pairs as u32,
        heads: heads as u32,
        angles: (if shared { rows } else { batch * rows }) as u32,
    };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { vector }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [walkers(push.pairs), Extent::Fixed(1), Extent::Fixed(1)],
    })
}
