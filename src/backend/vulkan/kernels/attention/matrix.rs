//! Block sizes of `attention` in 16 bits on matrix cores.

use std::ops::RangeInclusive;

use crate::backend::vulkan::flash::{MOST_BLOCK, sharing};
use crate::backend::vulkan::generated::{Blocks, attention_matrix, attention_matrix_distances};
use crate::backend::vulkan::kernel::{Specialization, Variant};
use crate::backend::vulkan::kernels::attention::NONE;
use crate::backend::vulkan::kernels::builds::Fit;
use crate::backend::vulkan::kernels::linear::unit_of;
use crate::backend::vulkan::lowering::Lowering;
use crate::backend::vulkan::{Feature, shared_bytes};
use crate::ops::Attention;

/// Invocations per workgroup, and keys per step. Small blocks let more workgroups share a multiprocessor: on an H200,
/// 64 keys take 1.2 times as long for heads of 64 columns.
const SMALL: [u32; 2] = [128, 32];
/// Wide heads are faster with large blocks: 0.85 of the time at 128 columns, 0.89 at 160.
const LARGE: [u32; 2] = [256, 64];
const WIDE_HEAD: RangeInclusive<usize> = 97..=160;
/// Heads of 192 columns, whose large blocks do not fit: 0.88 of the time of small ones.
const MIDDLE: [u32; 2] = [128, 48];
/// Of heads that two subgroups share.
const SHARED: [u32; 2] = [256, 32];
/// Where the rows of all distances of a tile do not fit.
const LESS: [u32; 2] = [64, 32];
const LEAST: [u32; 2] = [32, 32];

/// The blocks of a variant; those that the op requests are used as they are.
pub fn blocks(to: &Lowering<'_>, op: &Attention, variant: &'static Variant) -> Fit<Blocks> {
    let capabilities = to.capabilities;
    let in_lanes = variant.needs.contains(&Feature::MatrixRowsInLanes);
    let cores = Blocks::of(op).on_cores(variant, capabilities);
    let [a_column, b_column, distance_columns] = super::distances(to, op);
    let far = [a_column, b_column, distance_columns].map(|step| if step == NONE { 0 } else { step as usize });
    let unit = super::unit(to, op, 0).min(unit_of(&far));
    let sharing = if op.distances.is_none() { sharing(op.head_dim, in_lanes) } else { 1 };
    let cores = Blocks { unit, a_column, b_column, distance_columns, sharing, ..cores };
    if op.dropout > 0.0 {
        return Err("it drops weights");
    }
    // Where the matrix layout is unknown, a weight of zero would not suppress a hidden NaN or infinity.
    if op.hides() && !in_lanes {
        return Err("it hides keys, and the layout of matrices is unknown");
    }
    // The lanes that share a row each take its keys in eights: attention-matrix.rows-shared.glsl.
    let sharers = capabilities.subgroup_size / cores.matrix_m;
    if !in_lanes && sharers == 0 {
        return Err("a subgroup has fewer lanes than a matrix rows");
    }
    let blocks = |[invocations, keys]: [u32; 2]| {
        let subgroups = invocations.checked_div(capabilities.subgroup_size)?;
        Some(Blocks { keys, subgroups, invocations, ..cores })
    };
    let values = |blocks: &Blocks| match op.distances {
        Some(_) => attention_matrix_distances::Constants::from(*blocks).values(variant),
        None => attention_matrix::Constants::from(*blocks).values(variant),
    };
    let fits = |blocks: &Blocks| {
        blocks.invocations <= capabilities.invocations
            && shared_bytes(variant, &values(blocks)) <= capabilities.shared_memory
    };
    if let Some([block_q, keys]) = op.blocks {
        if !in_lanes && !keys.is_multiple_of(8 * sharers) {
            return Err("a subgroup's lanes cannot share a block of so many keys");
        }
        let invocations = (block_q / cores.matrix_m).checked_mul(capabilities.subgroup_size * sharing);
        // What is beyond any device is refused by its sizes, whichever build runs.
        let invocations = invocations.filter(|_| block_q.max(keys) <= MOST_BLOCK);
        let found = invocations.and_then(|invocations| blocks([invocations, keys])).filter(fits);
        return found.ok_or("the blocks are too large for its layout");
    }
    let tried = match op.head_dim {
        _ if op.distances.is_some() => &[SMALL, LESS, LEAST][..],
        _ if sharing > 1 => &[SHARED, SMALL],
        head if in_lanes && WIDE_HEAD.contains(&head) => &[LARGE, SMALL],
        head if in_lanes && head > *WIDE_HEAD.end() => &[MIDDLE, SMALL],
        _ => &[SMALL],
    };
    let usual = |found: &Blocks| matches!(found.subgroups, 2 | 4 | 8 | 16) && fits(found);
    tried.iter().filter_map(|size| blocks(*size)).find(usual).ok_or("no blocks fit the device")
}
