//! Dispatches of `attention_mask`: one.

use super::rows::walkers;
use crate::Result;
use crate::backend::vulkan::generated::attention_mask::{Constants, Push};
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::AttentionMask;

/// Adds the node's dispatch.
pub fn attention_mask(to: &mut Lowering<'_>, op: &AttentionMask) -> Result<()> {
    let axes = to.shape(0).fixed_axes("attention_mask", "scores")?;
    let (rows, keys) = (axes[axes.len() - 2], axes[axes.len() - 1]);
    let elements = axes.iter().product::<usize>() as u32;
    let vector = keys.is_multiple_of(4);
    let push = Push {
        elements,
        keys: keys as u32,
        rows: rows as u32,
        each: axes[1..axes.len() - 1].iter().product::<usize>() as u32,
        mask_value: op.mask_value,
    };
    let constants = Constants { vector, causal: op.causal, mask: to.operands() > 1 };
    to.dispatch(push, constants, walkers(if vector { elements / 4 } else { elements }))
}
