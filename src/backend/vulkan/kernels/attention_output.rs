//! Dispatches of `attention_output`: one, of the shader that serves the architecture.

use crate::Result;
use crate::backend::vulkan::generated::attention_output::{Constants, Push};
use crate::backend::vulkan::kernel::{Extent, Range, Specialization};
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::backend::vulkan::shared_bytes;
use crate::graph::shaders::ATTENTION_OUTPUT;
use crate::ops::{AttentionOutput, Counts, Shape};

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
        batch: 0,
        heads: sizes.heads as u32,
        kv_heads: sizes.kv_heads as u32,
        q_len: sizes.q_len as u32,
        kv_len: sizes.kv_len as u32,
        head_dim: sizes.head_dim as u32,
    };
    // Texts beyond a grid follow in one of their own, from a text on that starts at an aligned byte.
    const MOST: usize = Extent::MOST as usize / 64 * 64;
    let [weights, v, y] = [to.operand(0), to.operand(1), to.results()[0]];
    let text = |shape: &Shape| (4 * shape.elements(Counts::default()) / sizes.batch.max(1)) as u64;
    let bytes = [to.shape(0), to.shape(1), &to.result().shape].map(text);
    for first in (0..sizes.batch.max(1)).step_by(MOST) {
        let batch = (sizes.batch - first).min(MOST);
        let part = |whole: Range, each: u64| match sizes.batch > MOST {
            true => Range { offset: whole.offset + first as u64 * each, bytes: Some(batch as u64 * each), ..whole },
            false => whole,
        };
        let given = [("weights", part(weights, bytes[0])), ("values", part(v, bytes[1])), ("y", part(y, bytes[2]))];
        let build = Build::new(variant, Push { batch: batch as u32, ..push }, constants);
        let grid = [sizes.q_len.div_ceil(TILE), sizes.heads, batch].map(|groups| Extent::Fixed(groups as u32));
        to.add(build, "", &given, grid)?;
    }
    Ok(())
}
