//! Dispatches of `attention`: one.

use super::attention_matrix;
use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::generated::attention::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::generated::attention_masked;
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::dtype::DType;
use crate::graph::Node;
use crate::kernels::flash::{DEFAULT_CONFIG, FlashAttentionConfig, required_shared_memory, validate_config};
use crate::ops::{Attention, Counts, Dim, Shape};
use crate::{Error, Result};

/// A wider head's results would not fit the registers of an invocation.
const MOST_HEAD_DIM: usize = 256;

/// Farther than any text reaches, and far from the end of the shader's whole numbers.
const FAR: u32 = 1 << 30;

/// What every build of attention binds and is told, of one interface: lengths of rows and columns count `unit` elements.
pub(super) fn interface(lowering: &Lowering<'_>, node: &Node, op: &Attention, unit: usize) -> (Vec<Range>, Push) {
    let units = |columns: usize| (columns / unit) as u32;
    let stride = |operand: usize| units(lowering.shape(node.operands[operand]).columns());
    let table = node.operands.get(5).map(|id| lowering.shape(*id));
    let push = Push {
        group: (op.heads / op.kv_heads) as u32,
        q_stride: stride(0),
        q_column: units(op.q_column),
        k_stride: stride(1),
        k_column: units(op.k_column),
        v_stride: stride(2),
        v_column: units(op.v_column),
        y_stride: units(op.heads * op.head_dim),
        scale: op.scale,
        window: op.window.min(FAR),
        global_tokens: op.global_tokens.min(FAR),
        align_end: op.align_end.into(),
        reach: table.map_or(0, |table| table.columns() as u32 / 2),
        bias_rows: table.map_or(1, |table| table.rows().size(Counts::default()) as u32),
        shared_by: op.shared_by as u32,
    };
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        q: lowering.range(node.operands[0]),
        k: lowering.range(node.operands[1]),
        v: lowering.range(node.operands[2]),
        q_offsets: lowering.range(node.operands[3]),
        kv_offsets: lowering.range(node.operands[4]),
        // Without a table of biases, something that is read anyway stands in its place.
        bias: lowering.range(node.operands[if op.bias { 5 } else { 0 }]),
        y: lowering.range(node.result),
    };
    (bindings.into_array().to_vec(), push)
}

/// Blocks that the op asks for, if the device can have them; `half_precision` says whether matrix cores are to work on them.
fn asked(op: &Attention, half_precision: bool, capabilities: &Capabilities) -> Result<Option<FlashAttentionConfig>> {
    let Some([block_q, block_kv]) = op.blocks else { return Ok(None) };
    let config = FlashAttentionConfig { block_q, block_kv, head_dim: op.head_dim as u32, half_precision };
    validate_config(config, capabilities.shared_memory.into())?;
    let lanes = if half_precision { capabilities.subgroup_size / 16 * block_q } else { 4 * block_q };
    if lanes > capabilities.invocations {
        let Capabilities { name, invocations, .. } = capabilities;
        let reason = format!("block_q takes {lanes} invocations, {name} has {invocations} in a workgroup");
        return Err(Error::InvalidArgument(format!("flash attention, {config}: {reason}")));
    }
    Ok(Some(config))
}

/// What the engine takes without matrix cores: more queries share the keys that are loaded, where a workgroup may be as large.
/// 1.2 to 1.35 times as fast as 64 queries on an H200; as many keys, so that no bit differs.
fn chosen(capabilities: &Capabilities) -> FlashAttentionConfig {
    let large = FlashAttentionConfig { block_q: 128, ..DEFAULT_CONFIG };
    let fits = required_shared_memory(large) <= capabilities.shared_memory.into() && capabilities.invocations >= 512;
    if fits { large } else { DEFAULT_CONFIG }
}

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Attention) -> Result<()> {
    let shapes: Vec<&Shape> = node.operands.iter().map(|id| lowering.shape(*id)).collect();
    let stored = lowering.plan.graph.value(node.operands[0]).dtype;
    let masked = op.hides() || op.bias;
    let kernel = if masked { &attention_masked::KERNEL } else { &KERNEL };
    if stored == DType::F16
        && lowering.replaced(kernel, node).is_none()
        && let Some(build) = attention_matrix::choose(op, &shapes, lowering.capabilities)
    {
        asked(op, true, lowering.capabilities)?;
        return attention_matrix::lower(lowering, node, op, build);
    }
    if op.head_dim > MOST_HEAD_DIM {
        return Err(Error::Unsupported {
            what: "attention".into(),
            reason: format!("head_dim is {}, at most {MOST_HEAD_DIM} is possible", op.head_dim),
        });
    }
    let (bindings, push) = interface(lowering, node, op, 1);
    let steps = [push.q_stride, push.q_column, push.k_stride, push.k_column, push.v_stride, push.v_column];
    let vector = op.head_dim.is_multiple_of(4) && steps.iter().all(|step| step % 4 == 0);
    let variant = lowering.select(kernel, node)?;
    if variant.stored.is_narrow() && !vector {
        let reason = format!("head_dim {} or a column is no multiple of four", op.head_dim);
        return Err(Error::Unsupported { what: format!("attention in {}", variant.stored.name()), reason });
    }
    let config = asked(op, false, lowering.capabilities)?.unwrap_or_else(|| chosen(lowering.capabilities));
    // A shader of the user that has no constant for it has tiles of 64.
    let told = variant.constants.iter().any(|constant| constant.name == "block_q");
    let FlashAttentionConfig { block_q, block_kv, .. } = if told { config } else { DEFAULT_CONFIG };
    let (invocations, head_dim) = (4 * block_q, op.head_dim as u32);
    let (causal, window, bias) = (op.causal, op.window > 0, op.bias);
    let constants = match masked {
        true => attention_masked::Constants { head_dim, vector, causal, window, bias, block_q, block_kv, invocations }
            .values(variant),
        false => Constants { head_dim, vector, block_q, block_kv, invocations }.values(variant),
    };
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants,
        bindings,
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: [Extent::Tiles { dim: Dim::Tokens, per: block_q }, Extent::Fixed(op.heads as u32), Extent::Fixed(1)],
    })
}
