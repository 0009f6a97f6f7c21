//! Block sizes of `attention` in float32 on matrix cores, each number split in two.

use crate::backend::vulkan::generated::Blocks;
use crate::backend::vulkan::generated::attention_split::Constants;
use crate::backend::vulkan::kernel::{Specialization, Variant};
use crate::backend::vulkan::kernels::builds::Fit;
use crate::backend::vulkan::lowering::Lowering;
use crate::backend::vulkan::shared_bytes;
use crate::ops::Attention;

/// Keys per step.
const KEYS: u32 = 32;
/// Invocations per workgroup. Texts of 2048 tokens take 0.72 of the time with the larger number for heads of 64 columns on
/// an H200, since more queries share the splitting of a key; texts of 25 take 1.4 times as long. Heads of 32 columns gain
/// nothing.
const SMALL: u32 = 128;
const LARGE: u32 = 256;
/// Where the others are too large for shared memory.
const LEAST: u32 = 64;
const NARROW_HEAD: usize = 32;

/// The blocks; an op that requests others gets those of the plain build.
pub fn blocks(to: &Lowering<'_>, op: &Attention, variant: &'static Variant) -> Fit<Blocks> {
    to.may_split()?;
    let unit = if super::starts_at(to, op, 0, 4).is_ok() { 4 } else { 1 };
    if op.blocks.is_some() || op.dropout > 0.0 {
        return Err("it drops weights or requests blocks");
    }
    let capabilities = to.capabilities;
    // Eights of a row are split by as many neighbours: attention-split.blocks.glsl.
    if (op.head_dim as u32).div_ceil(8).next_power_of_two() > capabilities.subgroup_size {
        return Err("a subgroup has fewer lanes than a row eights");
    }
    let cores = Blocks::of(op).on_cores(variant, capabilities);
    let blocks = |invocations: &u32| Blocks {
        keys: KEYS,
        subgroups: invocations / capabilities.subgroup_size,
        invocations: *invocations,
        unit,
        ..cores
    };
    let fits = |blocks: &Blocks| {
        blocks.invocations <= capabilities.invocations
            && shared_bytes(variant, &Constants::from(*blocks).values(variant)) <= capabilities.shared_memory
    };
    let tried = if op.head_dim > NARROW_HEAD { &[LARGE, SMALL, LEAST][..] } else { &[SMALL, LEAST] };
    tried.iter().map(blocks).find(fits).ok_or("no blocks fit the device")
}
