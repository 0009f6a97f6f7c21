//! Dispatches of `attention` in float16 on matrix cores: one.

use super::attention::Masks;
use crate::Result;
use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::generated::attention_matrix::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::{DType, Node};
use crate::ops::{Attention, Shape};

/// Invocations of a workgroup.
const INVOCATIONS: u32 = 128;
/// A wider head's results would not fit the registers of a subgroup.
const MOST_HEAD_DIM: usize = 128;

/// Keys of a block: with twice as many, fewer workgroups fit a multiprocessor and an H200 takes twice as long.
const KEYS: u32 = 32;

/// Whether the device computes attention over operands of these shapes so.
pub(in crate::backend::vulkan) fn fits(op: &Attention, operands: &[&Shape], capabilities: &Capabilities) -> bool {
    let [q, k, v, ..] = operands else { return false };
    let subgroups = INVOCATIONS.checked_div(capabilities.subgroup_size);
    let steps = [q.columns(), op.q_column, k.columns(), op.k_column, v.columns(), op.v_column];
    // A key that some query does not see may hold a NaN, which a weight of zero does not silence.
    !op.hides()
        && !op.bias
        && op.shared_by == 1
        && matches!(subgroups, Some(2 | 4 | 8))
        && KERNEL.own(DType::F16, capabilities).is_ok()
        && op.head_dim.is_multiple_of(16)
        && op.head_dim <= MOST_HEAD_DIM
        && steps.iter().all(|step| step.is_multiple_of(8))
}

/// Adds the node's dispatch.
pub(super) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Attention) -> Result<()> {
    let variant = lowering.select(&KERNEL, node)?;
    let subgroups = INVOCATIONS / lowering.capabilities.subgroup_size.max(1);
    let eights = |columns: usize| (columns / 8) as u32;
    let stride = |operand: usize| eights(lowering.shape(node.operands[operand]).columns());
    let masks = Masks::of(lowering, node, op);
    let push = Push {
        group: (op.heads / op.kv_heads) as u32,
        q_stride: stride(0),
        q_column: eights(op.q_column),
        k_stride: stride(1),
        k_column: eights(op.k_column),
        v_stride: stride(2),
        v_column: eights(op.v_column),
        y_stride: eights(op.heads * op.head_dim),
        scale: op.scale,
        window: masks.window,
        global_tokens: masks.global_tokens,
        align_end: masks.align_end,
        reach: masks.reach,
        bias_rows: masks.bias_rows,
        shared_by: masks.shared_by,
    };
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        q: lowering.range(node.operands[0]),
        k: lowering.range(node.operands[1]),
        v: lowering.range(node.operands[2]),
        q_offsets: lowering.range(node.operands[3]),
        kv_offsets: lowering.range(node.operands[4]),
        bias: masks.bias,
        y: lowering.range(node.result),
    };
    let constants = Constants { head_dim: op.head_dim as u32, keys: KEYS, subgroups };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: constants.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [Extent::TextTiles { per: 16 * subgroups }, Extent::Fixed(op.heads as u32), Extent::Fixed(1)],
    })
}
