//! Dispatches of `attention_mask`: one.

use super::rows::walkers;
use crate::Result;
use crate::backend::vulkan::generated::attention_mask::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::AttentionMask;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &AttentionMask) -> Result<()> {
    let axes = lowering.shape(node.operands[0]).fixed_axes("attention_mask", "scores")?;
    let (rows, keys) = (axes[axes.len() - 2], axes[axes.len() - 1]);
    let elements = axes.iter().product::<usize>() as u32;
    let vector = keys.is_multiple_of(4);
    let scores = lowering.range(node.operands[0]);
    let variant = lowering.select(&KERNEL, node)?;
    // Without a mask, something that is read anyway stands in its place.
    let mask = node.operands.get(1).map_or(scores, |mask| lowering.range(*mask));
    let bindings = Bindings { scores, mask, y: lowering.range(node.result) };
    let push = Push {
        elements,
        keys: keys as u32,
        rows: rows as u32,
        each: axes[1..axes.len() - 1].iter().product::<usize>() as u32,
        mask_value: op.mask_value,
    };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { vector, causal: op.causal, mask: node.operands.len() > 1 }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [walkers(if vector { elements / 4 } else { elements }), Extent::Fixed(1), Extent::Fixed(1)],
    })
}
