//! Dispatches of `attention_bias`: one.

use super::rows::walkers;
use crate::Result;
use crate::backend::vulkan::generated::attention_bias::{Constants, Push};
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::AttentionBias;

/// Adds the node's dispatch.
pub fn attention_bias(to: &mut Lowering<'_>, op: &AttentionBias) -> Result<()> {
    let axes = to.shape(0).fixed_axes("attention_bias", "scores")?;
    let elements = axes.iter().product::<usize>() as u32;
    let bias = to.operands() > 1;
    let push = Push {
        elements,
        heads: axes[1] as u32,
        queries: axes[2] as u32,
        keys: axes[3] as u32,
        reach: if bias { to.shape(1).columns() as u32 / 2 } else { 0 },
        window: op.window,
        global_tokens: op.global_tokens,
        soft_cap: op.soft_cap,
    };
    to.dispatch(push, Constants { bias }, walkers(elements))
}
