//! Dispatches of `attention_output`: one, of the shader that serves the architecture.

use crate::Result;
use crate::backend::vulkan::generated::attention_output::{Constants, Push};
use crate::backend::vulkan::kernel::{Extent, Specialization};
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::backend::vulkan::shared_bytes;
use crate::graph::shaders::ATTENTION_OUTPUT;
use crate::ops::AttentionOutput;

/// Queries of one head per workgroup.
const TILE: usize = 64;

/// Adds the node's dispatch.
pub fn attention_output(to: &mut Lowering<'_>, op: &AttentionOutput) -> Result<()> {
    let sizes = op.sizes(to.shape(0), to.shape(1))?;
    let variant = to.registered(ATTENTION_OUTPUT, &op.architecture)?;
    let widest = match sizes.head_dim {
        0..=32 => 32,
        33..=64 => 64,
        _ => 128,
    };
    let constants = |tile_columns: u32| Constants {
        vector: sizes.kv_len.is_multiple_of(4) && sizes.head_dim.is_multiple_of(4),
        window: op.window,
        global_tokens: op.global_tokens,
        random_blocks: op.random_blocks,
        block: op.block,
        seed: op.seed,
        tile_columns,
    };
    // Every Vulkan device has room for the widest; the columns' sums are the same in any.
    let most = to.capabilities.shared_memory;
    let fits = |tile: &u32| most >= 32 << 10 || shared_bytes(variant, &constants(*tile).values(variant)) <= most;
    let constants = constants([widest, 64, 32].into_iter().find(fits).unwrap_or(32));
    let push = Push {
        batch: sizes.batch as u32,
        heads: sizes.heads as u32,
        kv_heads: sizes.kv_heads as u32,
        q_len: sizes.q_len as u32,
        kv_len: sizes.kv_len as u32,
        head_dim: sizes.head_dim as u32,
    };
    let build = Build::new(variant, push, constants);
    let grid = [sizes.q_len.div_ceil(TILE), sizes.heads, sizes.batch].map(|groups| Extent::Fixed(groups as u32));
    to.add(build, "", &[], grid)
}
