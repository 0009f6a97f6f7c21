//! Block sizes of `attention` in float32 on matrix cores, each number split in two.

use crate::Result;
use crate::backend::vulkan::generated::{Blocks, attention_split, attention_split_prepared, split_heads};
use crate::backend::vulkan::kernel::{Specialization, Variant};
use crate::backend::vulkan::kernels::attention::products;
use crate::backend::vulkan::kernels::builds::Fit;
use crate::backend::vulkan::kernels::linear::binds;
use crate::backend::vulkan::kernels::rows::{Rows, continued};
use crate::backend::vulkan::lowering::Lowering;
use crate::backend::vulkan::shared_bytes;
use crate::dtype::DType;
use crate::numerics::Numerics;
use crate::ops::{Attention, Dim, Shape};

/// Invocations of a workgroup, keys per step, and subgroups that share rows.
type Size = [u32; 3];
/// Texts of 2048 tokens take 0.72 of the time with the larger number of invocations for heads of 64 columns on an H200, since more
/// queries share the splitting of a key; texts of 25 take 1.4 times as long. Heads of 32 columns gain nothing.
const SMALL: Size = [128, 32, 1];
const LARGE: Size = [256, 32, 1];
/// Where the others are too large for shared memory.
const LEAST: Size = [64, 32, 1];
const NARROW_HEAD: usize = 32;
/// The widest head whose keys and values each workgroup splits itself. Of wider ones it takes longer than the products; of narrower
/// ones dispatches for it do, 1.1 times the time at 64 columns and 2 times for texts of 32 tokens.
const OWN_HEAD: usize = 64;
/// Of heads that are split before, up to so many columns, whole in a subgroup, in halves and in quarters: on an H200 1.24 to 1.74 times
/// as fast as by the plain build, or by workgroups that split them.
const PREPARED: [(usize, &[Size]); 3] = [
    (112, &[[128, 32, 1], [64, 32, 1], [64, 16, 1]]),
    (192, &[[128, 16, 2], [64, 16, 2]]),
    (256, &[[256, 16, 4], [128, 16, 4]]),
];
/// Invocations of a workgroup that splits heads.
const SPLITTING: u32 = 256;

/// The blocks of a workgroup that splits keys and values itself; an op that requests others gets those of the plain build.
pub fn blocks(to: &Lowering<'_>, op: &Attention, variant: &'static Variant) -> Fit<Blocks> {
    if op.head_dim > OWN_HEAD {
        return Err("its heads are wide");
    }
    // Eights of a row are split by as many neighbours: attention-split.fetched.glsl.
    if (op.head_dim as u32).div_ceil(8).next_power_of_two() > to.capabilities.subgroup_size {
        return Err("a subgroup has fewer lanes than a row eights");
    }
    let values = |blocks: Blocks| attention_split::Constants::from(blocks).values(variant);
    fitting(to, op, variant, if op.head_dim > NARROW_HEAD { &[LARGE, SMALL, LEAST] } else { &[SMALL, LEAST] }, values)
}

/// Those for heads that were split before, into the node's scratch memory.
pub fn prepared(to: &Lowering<'_>, op: &Attention, variant: &'static Variant) -> Fit<Blocks> {
    if to.all_scratch().is_empty() {
        return Err("its heads are not split before");
    }
    prepared_blocks(to, op, variant)
}

fn prepared_blocks(to: &Lowering<'_>, op: &Attention, variant: &'static Variant) -> Fit<Blocks> {
    let sizes = PREPARED.iter().find(|(most, _)| op.head_dim <= *most).filter(|_| op.head_dim > OWN_HEAD);
    let (_, tried) = sizes.ok_or("each workgroup splits its heads")?;
    if variant.bindings.len() > to.capabilities.storage_buffers as usize {
        return Err("the device binds fewer arrays");
    }
    let values = |blocks: Blocks| attention_split_prepared::Constants::from(blocks).values(variant);
    fitting(to, op, variant, tried, values)
}

/// The first of some sizes that fits the device.
fn fitting(
    to: &Lowering<'_>,
    op: &Attention,
    variant: &'static Variant,
    tried: &[Size],
    values: impl Fn(Blocks) -> Vec<u32>,
) -> Fit<Blocks> {
    to.may_split()?;
    let unit = if super::starts_at(to, op, 0, 4).is_ok() { 4 } else { 1 };
    if op.blocks.is_some() || op.dropout > 0.0 {
        return Err("it drops weights or requests blocks");
    }
    let capabilities = to.capabilities;
    let cores = Blocks::of(op).on_cores(variant, capabilities);
    let blocks = |[invocations, keys, sharing]: &Size| {
        let subgroups = invocations / capabilities.subgroup_size;
        Blocks { keys: *keys, subgroups, invocations: *invocations, unit, sharing: *sharing, ..cores }
    };
    let fits = |blocks: &Blocks| {
        blocks.invocations <= capabilities.invocations
            && blocks.subgroups >= blocks.sharing
            && shared_bytes(variant, &values(*blocks)) <= capabilities.shared_memory
    };
    tried.iter().map(blocks).find(fits).ok_or("no blocks fit the device")
}

/// Axes of scratch memory for queries, keys and values: words of each head, four for its factor.
fn head_scratch(to: &Lowering<'_>, op: &Attention) -> [Shape; 3] {
    let words = 4 + 8 * op.head_dim.div_ceil(8);
    products(op).map(|[place, heads, _]| {
        let mut shape = to.shape(place).with_columns(heads);
        shape.0.push(Dim::Fixed(words));
        shape
    })
}

/// The scratch memory of a node whose heads are split before it; none of others.
pub fn scratch(to: &Lowering<'_>, op: &Attention) -> Vec<Shape> {
    let sizes = Some([op.head_dim; 2]);
    let found = attention_split_prepared::KERNEL.fitting((DType::F32, Numerics::Run), to.capabilities, sizes);
    let fits = |variant| prepared_blocks(to, op, variant).is_ok() && op.distances.is_none();
    let narrow = to.stored_at_any_width().is_ok_and(DType::is_narrow);
    if narrow || !found.is_ok_and(fits) {
        return Vec::new();
    }
    let shapes = head_scratch(to, op);
    if binds(to, &shapes.each_ref().map(|heads| (heads, 4))).is_ok() { shapes.into() } else { Vec::new() }
}

/// Splits queries, keys and values into the node's scratch memory, a dispatch each.
pub fn split(to: &mut Lowering<'_>, op: &Attention, unit: u32) -> Result<()> {
    let per = SPLITTING / (op.head_dim as u32).div_ceil(8);
    let given = products(op).into_iter().zip(head_scratch(to, op)).zip(to.all_scratch());
    for (([place, heads, column], shape), range) in given.collect::<Vec<_>>() {
        let rows = Rows::of_each(&shape)?;
        let push = split_heads::Push {
            rows_of: rows.rows_of,
            rows: rows.rows,
            heads: heads as u32,
            columns: to.shape(place).columns() as u32 / unit,
            first: column as u32 / unit,
        };
        let constants = split_heads::Constants { head_dim: op.head_dim as u32, unit };
        let build = to.own(DType::F32, push, constants)?;
        to.add(build, "split", &[("x", to.operand(place)), ("y", range)], continued(rows.tiles(per)))?;
    }
    Ok(())
}
