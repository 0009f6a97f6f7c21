//! Dispatches of `attention`: one. Which build runs, and in which blocks, is chosen here.

mod matrix;
mod split;

use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::flash::{DEFAULT_CONFIG, FlashAttentionConfig, required_shared_memory, validate_config};
use crate::backend::vulkan::generated::{
    Blocks, attention, attention_distances, attention_masked, attention_matrix, attention_split,
};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::dtype::DType;
use crate::ops::{Attention, Counts, Dim};
use crate::{Error, Result};

/// The results of a wider head would not fit an invocation's registers.
const MOST_HEAD_DIM: usize = 256;

/// Beyond the length of any text, and far from overflow of the shader's integers.
const FAR: u32 = 1 << 30;

/// Place of dropout's key among the operands.
const KEY: usize = 5;

/// The column of an operand that is absent.
const NONE: u32 = u32::MAX;

/// The push block of all builds.
type Push = attention::Push;

/// Adds the node's dispatch.
pub fn attention(to: &mut Lowering<'_>, op: &Attention) -> Result<()> {
    let masked = op.hides() || op.bias || op.soft_cap > 0.0 || op.dropout > 0.0;
    let kernel = match (op.distances.is_some(), masked) {
        (true, _) => &attention_distances::KERNEL,
        (false, true) => &attention_masked::KERNEL,
        (false, false) => &attention::KERNEL,
    };
    let variant = to.select(kernel)?;
    let heads = Extent::Fixed(op.heads as u32);
    if variant.stored.is_narrow()
        && let Some((variant, blocks)) = matrix::choose(to, op, variant.stored)
    {
        asked(op, true, to.capabilities)?;
        let build = Build::new(variant, push(to, op, 8), attention_matrix::Constants::from(blocks));
        return to.add(build, "", &[], [Extent::TextTiles { per: 16 * blocks.subgroups }, heads, Extent::ONE]);
    }
    if variant.stored == DType::F32
        && to.replaced(kernel).is_none()
        && let Some((variant, blocks)) = split::choose(to, op)
    {
        let build = Build::new(variant, push(to, op, 4), attention_split::Constants::from(blocks));
        return to.add(build, "", &[], [Extent::TextTiles { per: 16 * blocks.subgroups }, heads, Extent::ONE]);
    }
    to.without_matrix_cores(variant.stored)?;
    if op.head_dim > MOST_HEAD_DIM {
        let reason = format!("head_dim is {}, at most {MOST_HEAD_DIM} is possible", op.head_dim);
        return Err(Error::unsupported("attention", reason));
    }
    let push = push(to, op, 1);
    let steps = [push.q_stride, push.q_column, push.k_stride, push.k_column, push.v_stride, push.v_column];
    let [a_column, b_column] = op.distances.unwrap_or_default().map(|column| column.map_or(NONE, |at| at as u32));
    let distance_columns = if op.distances.is_some() { to.shape(5).columns() as u32 } else { 0 };
    let far = [a_column, b_column, distance_columns].into_iter().filter(|step| *step != NONE);
    let vector = op.head_dim.is_multiple_of(4) && steps.into_iter().chain(far).all(|step| step % 4 == 0);
    if variant.stored.is_narrow() && !vector {
        let reason = format!("head_dim {} or a column is no multiple of four", op.head_dim);
        return Err(Error::Unsupported { what: format!("attention in {}", variant.stored.name()), reason });
    }
    let config = asked(op, false, to.capabilities)?.unwrap_or_else(|| chosen(to.capabilities));
    // A user's shader without this constant has tiles of 64.
    let told = |name| variant.constants.iter().any(|constant| constant.name == name);
    let FlashAttentionConfig { block_q, block_kv, .. } = if told("block_q") { config } else { DEFAULT_CONFIG };
    if op.soft_cap > 0.0 && !told("soft_cap") {
        return Err(Error::unsupported("attention", format!("{} has no constant SOFT_CAP", variant.name)));
    }
    if op.dropout > 0.0 && !told("dropout") {
        return Err(Error::unsupported("attention", format!("{} has no constant DROPOUT", variant.name)));
    }
    let blocks = Blocks { vector, block_q, block_kv, invocations: 4 * block_q, ..Blocks::of(op) };
    let blocks = Blocks { a_column, b_column, distance_columns, ..blocks };
    let build = match (op.distances.is_some(), masked) {
        (true, _) => Build::new(variant, push, attention_distances::Constants::from(blocks)),
        (false, true) => Build::new(variant, push, attention_masked::Constants::from(blocks)),
        (false, false) => Build::new(variant, push, attention::Constants::from(blocks)),
    };
    let key = (op.dropout > 0.0).then(|| ("bias", to.operand(KEY)));
    to.add(build, "", key.as_slice(), [Extent::Tiles { dim: Dim::Tokens, per: block_q }, heads, Extent::ONE])
}

impl Blocks {
    /// The constants that follow from the op.
    fn of(op: &Attention) -> Self {
        let (causal, window, bias) = (op.causal, op.window > 0, op.bias);
        let (head_dim, soft_cap, dropout) = (op.head_dim as u32, op.soft_cap, op.dropout);
        Blocks { head_dim, causal, window, bias, soft_cap, dropout, ..Blocks::default() }
    }
}

/// The push block of all builds: lengths of rows and columns are in units of `unit` elements.
fn push(to: &Lowering<'_>, op: &Attention, unit: usize) -> Push {
    let units = |columns: usize| (columns / unit) as u32;
    let [q_stride, k_stride, v_stride] = [0, 1, 2].map(|place| units(to.shape(place).columns()));
    let table = (op.bias || op.distances.is_some()).then(|| to.shape(5));
    let rows = table.map_or(1, |table| table.rows().size(Counts::default()) as u32);
    Push {
        group: (op.heads / op.kv_heads) as u32,
        q_stride,
        q_column: units(op.q_column),
        k_stride,
        k_column: units(op.k_column),
        v_stride,
        v_column: units(op.v_column),
        y_stride: units(op.heads * op.head_dim),
        scale: op.scale,
        window: op.window.min(FAR),
        global_tokens: op.global_tokens.min(FAR),
        align_end: op.align_end.into(),
        reach: match table {
            Some(biases) if op.bias => biases.columns() as u32 / 2,
            Some(_) => rows / 2,
            None => op.stream,
        },
        bias_rows: rows,
        shared_by: op.shared_by as u32,
    }
}

/// The blocks that the op requests, if the device supports them; `half_precision` states whether they are for matrix
/// cores.
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

/// The engine's choice without matrix cores: where a larger workgroup is possible, more queries share the loaded keys.
/// 1.2 to 1.35 times as fast as 64 queries on an H200; the number of keys is the same, so the result is identical bit
/// for bit.
fn chosen(capabilities: &Capabilities) -> FlashAttentionConfig {
    let large = FlashAttentionConfig { block_q: 128, ..DEFAULT_CONFIG };
    let fits = |config| required_shared_memory(config) <= capabilities.shared_memory.into();
    if capabilities.invocations >= 512 && fits(large) {
        large
    } else if fits(DEFAULT_CONFIG) {
        DEFAULT_CONFIG
    } else {
        // WebGPU's least: half of Vulkan's.
        FlashAttentionConfig { block_q: 32, block_kv: 32, ..DEFAULT_CONFIG }
    }
}
