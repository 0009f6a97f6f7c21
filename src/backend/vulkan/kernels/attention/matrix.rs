//! Block sizes of `attention` in 16 bits on matrix cores.

use std::ops::RangeInclusive;

use crate::backend::vulkan::generated::Blocks;
use crate::backend::vulkan::generated::attention_matrix::{Constants, KERNEL};
use crate::backend::vulkan::kernel::{Specialization, Variant};
use crate::backend::vulkan::lowering::Lowering;
use crate::backend::vulkan::{Feature, shared_bytes};
use crate::dtype::DType;
use crate::ops::Attention;

/// Invocations per workgroup, and keys per step. Small blocks let more workgroups share a multiprocessor: on an H200,
/// 64 keys take 1.2 times as long for heads of 64 columns.
const SMALL: [u32; 2] = [128, 32];
/// Wide heads are faster with large blocks: 0.85 of the time at 128 columns.
const LARGE: [u32; 2] = [256, 64];
const WIDE_HEAD: RangeInclusive<usize> = 97..=128;

/// The variant for the device and its blocks, if the node's attention can run on matrix cores; blocks that the op
/// requests are used as they are.
pub fn choose(to: &Lowering<'_>, op: &Attention, stored: DType) -> Option<(&'static Variant, Blocks)> {
    let capabilities = to.capabilities;
    let variant = KERNEL.own(stored, capabilities).ok()?;
    let in_quads = variant.needs.contains(&Feature::MatrixRowsInQuads);
    let [q, k, v] = [0, 1, 2].map(|place| to.shape(place).columns());
    let steps = [q, op.q_column, k, op.k_column, v, op.v_column];
    // Where the matrix layout is unknown, a weight of zero would not suppress a hidden NaN or infinity.
    let most_head_dim = if in_quads { 256 } else { 128 };
    let whole = op.head_dim.is_multiple_of(16) && steps.iter().all(|step| step.is_multiple_of(8));
    if !whole
        || op.dropout > 0.0
        || op.distances.is_some()
        || !(16..=most_head_dim).contains(&op.head_dim)
        || (op.hides() && !in_quads)
    {
        return None;
    }
    let blocks = |[invocations, keys]: [u32; 2]| {
        let subgroups = invocations.checked_div(capabilities.subgroup_size)?;
        Some(Blocks { keys, subgroups, invocations, ..Blocks::of(op) })
    };
    if let Some([block_q, keys]) = op.blocks {
        let invocations = (block_q / 16).checked_mul(capabilities.subgroup_size)?;
        return Some((variant, blocks([invocations, keys])?));
    }
    let fits = |blocks: &Blocks| {
        matches!(blocks.subgroups, 2 | 4 | 8)
            && blocks.invocations <= capabilities.invocations
            && shared_bytes(variant, &Constants::from(*blocks).values(variant)) <= capabilities.shared_memory
    };
    let wide = in_quads && WIDE_HEAD.contains(&op.head_dim);
    let tried = if wide { &[LARGE, SMALL][..] } else { &[SMALL] };
    let found = tried.iter().filter_map(|size| blocks(*size)).find(fits)?;
    Some((variant, found))
}
