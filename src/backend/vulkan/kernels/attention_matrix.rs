//! Dispatches of `attention` in float16 on matrix cores: one.

use std::ops::RangeInclusive;

use super::attention::interface;
use crate::Result;
use crate::backend::vulkan::generated::attention_matrix::{Constants, KERNEL};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Variant};
use crate::backend::vulkan::lower::Lowering;
use crate::backend::vulkan::{Capabilities, Feature, shared_bytes};
use crate::dtype::DType;
use crate::graph::Node;
use crate::ops::{Attention, Shape};

/// Invocations of a workgroup and keys that are worked on together.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Blocks {
    invocations: u32,
    keys: u32,
}

/// Small blocks let more workgroups share a multiprocessor: on an H200, 64 keys take heads of 64 columns 1.2 times as long.
const SMALL: Blocks = Blocks { invocations: 128, keys: 32 };
/// Wide heads take it the other way: 0.85 of the time at 128 columns.
const LARGE: Blocks = Blocks { invocations: 256, keys: 64 };
const WIDE_HEAD: RangeInclusive<usize> = 97..=128;

/// A build, and its constants.
type Build = (&'static Variant, Constants);

/// The build for a device, if it computes attention over operands of these shapes so; blocks that the op asks for are taken
/// as they are.
pub(super) fn choose(op: &Attention, operands: &[&Shape], capabilities: &Capabilities) -> Option<Build> {
    let [q, k, v, ..] = operands else { return None };
    let variant = KERNEL.own(DType::F16, capabilities).ok()?;
    let in_quads = variant.needs.contains(&Feature::MatrixRowsInQuads);
    let steps = [q.columns(), op.q_column, k.columns(), op.k_column, v.columns(), op.v_column];
    // Where nobody knows which lane holds which value, a weight of zero would not silence a hidden one that is no number.
    let most_head_dim = if in_quads { 256 } else { 128 };
    let whole = op.head_dim.is_multiple_of(16) && steps.iter().all(|step| step.is_multiple_of(8));
    if !whole || !(16..=most_head_dim).contains(&op.head_dim) || (op.hides() && !in_quads) {
        return None;
    }
    let constants = |blocks: Blocks| {
        let subgroups = blocks.invocations.checked_div(capabilities.subgroup_size)?;
        Some(Constants {
            head_dim: op.head_dim as u32,
            keys: blocks.keys,
            subgroups,
            invocations: blocks.invocations,
            causal: op.causal,
            window: op.window > 0,
            bias: op.bias,
        })
    };
    if let Some([block_q, keys]) = op.blocks {
        let invocations = (block_q / 16).checked_mul(capabilities.subgroup_size)?;
        return Some((variant, constants(Blocks { invocations, keys })?));
    }
    let fits = |constants: &Constants| {
        matches!(constants.subgroups, 2 | 4 | 8)
            && constants.invocations <= capabilities.invocations
            && shared_bytes(variant, &constants.values(variant)) <= capabilities.shared_memory
    };
    let wide = in_quads && WIDE_HEAD.contains(&op.head_dim);
    let tried = if wide { &[LARGE, SMALL][..] } else { &[SMALL] };
    let found = tried.iter().filter_map(|blocks| constants(*blocks)).find(fits)?;
    Some((variant, found))
}

/// Whether the device computes attention over operands of these shapes so.
pub(in crate::backend::vulkan) fn fits(op: &Attention, operands: &[&Shape], capabilities: &Capabilities) -> bool {
    choose(op, operands, capabilities).is_some()
}

/// Adds the node's dispatch.
pub(super) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Attention, build: Build) -> Result<()> {
    let (variant, constants) = build;
    let (bindings, push) = interface(lowering, node, op, 8);
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: constants.values(variant),
        bindings,
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [Extent::TextTiles { per: 16 * constants.subgroups }, Extent::Fixed(op.heads as u32), Extent::Fixed(1)],
    })
}
