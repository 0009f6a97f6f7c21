//! Block sizes of `attention` in float32 on matrix cores, each number split in two.

use crate::backend::vulkan::generated::Blocks;
use crate::backend::vulkan::generated::attention_split::{Constants, KERNEL};
use crate::backend::vulkan::kernel::{Specialization, Variant};
use crate::backend::vulkan::lowering::Lowering;
use crate::backend::vulkan::shared_bytes;
use crate::dtype::DType;
use crate::graph::shaders::Float32Products;
use crate::ops::Attention;

/// Keys per step.
const KEYS: u32 = 32;
/// Invocations per workgroup. Texts of 2048 tokens take 0.72 of the time with the larger number for heads of 64 columns on
/// an H200, since more queries share the splitting of a key; texts of 25 take 1.4 times as long. Heads of 32 columns gain
/// nothing.
const SMALL: u32 = 128;
const LARGE: u32 = 256;
const NARROW_HEAD: usize = 32;
/// Wider heads are not faster than plain ones.
const MOST_HEAD_DIM: usize = 80;

/// The variant for the device and its blocks, if the node's attention runs so; an op that requests blocks gets those of
/// the plain build.
pub fn choose(to: &Lowering<'_>, op: &Attention) -> Option<(&'static Variant, Blocks)> {
    let capabilities = to.capabilities;
    let variant = KERNEL.own(DType::F32, capabilities).ok()?;
    let [q, k, v] = [0, 1, 2].map(|place| to.shape(place).columns());
    let steps = [q, op.q_column, k, op.k_column, v, op.v_column];
    let whole = op.head_dim.is_multiple_of(16) && steps.iter().all(|step| step.is_multiple_of(4));
    let chosen = to.float32_products() == Float32Products::Split && op.blocks.is_none() && op.dropout == 0.0;
    if !whole || !chosen || op.distances.is_some() || !(16..=MOST_HEAD_DIM).contains(&op.head_dim) {
        return None;
    }
    let blocks = |invocations: &u32| Blocks {
        keys: KEYS,
        subgroups: invocations / capabilities.subgroup_size,
        invocations: *invocations,
        ..Blocks::of(op)
    };
    let fits = |blocks: &Blocks| {
        blocks.invocations <= capabilities.invocations
            && shared_bytes(variant, &Constants::from(*blocks).values(variant)) <= capabilities.shared_memory
    };
    let tried = if op.head_dim > NARROW_HEAD { &[LARGE, SMALL][..] } else { &[SMALL] };
    Some((variant, tried.iter().map(blocks).find(fits)?))
}
