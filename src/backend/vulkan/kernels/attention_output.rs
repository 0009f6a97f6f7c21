//! Dispatches of `attention_output`: one, of the shader that serves the architecture.

use crate::Result;
use crate::backend::registry::ATTENTION_OUTPUT;
use crate::backend::vulkan::generated::attention_output::{Bindings, Constants, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent};
use crate::backend::vulkan::lower::Lowering;
use crate::backend::vulkan::registry;
use crate::graph::Node;
use crate::ops::AttentionOutput;

/// Queries of one head for which there is one workgroup.
const TILE: usize = 64;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &AttentionOutput) -> Result<()> {
    let sizes = op.sizes(lowering.shape(node.operands[0]), lowering.shape(node.operands[1]))?;
    let variant = registry::select_from(lowering.shaders, ATTENTION_OUTPUT, &op.architecture, lowering.capabilities)?;
    let constants = Constants {
        vector: sizes.kv_len.is_multiple_of(4) && sizes.head_dim.is_multiple_of(4),
        window: op.window,
        global_tokens: op.global_tokens,
        random_blocks: op.random_blocks,
        block: op.block,
        seed: op.seed,
        tile_columns: match sizes.head_dim {
            0..=32 => 32,
            33..=64 => 64,
            _ => 128,
        },
    };
    let bindings = Bindings {
        weights: lowering.range(node.operands[0]),
        values: lowering.range(node.operands[1]),
        y: lowering.range(node.result),
    };
    let push = Push {
        batch: sizes.batch as u32,
        heads: sizes.heads as u32,
        kv_heads: sizes.kv_heads as u32,
        q_len: sizes.q_len as u32,
        kv_len: sizes.kv_len as u32,
        head_dim: sizes.head_dim as u32,
    };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: constants.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [sizes.q_len.div_ceil(TILE), sizes.heads, sizes.batch].map(|groups| Extent::Fixed(groups as u32)),
    })
}
