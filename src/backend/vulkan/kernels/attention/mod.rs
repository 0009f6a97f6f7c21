//! Dispatches of `attention`: one. Which build runs, and in which blocks, is chosen here.

mod matrix;
mod registers;
pub mod split;

use super::builds::{Fit, How, Row, choose};
use super::linear::unit_of;
use crate::backend::vulkan::capabilities::{Capabilities, MatrixRows};
use crate::backend::vulkan::flash::{DEFAULT_CONFIG, FlashAttentionConfig, required_shared_memory, validate_config};
use crate::backend::vulkan::generated::{
    Blocks, attention, attention_distances, attention_masked, attention_matrix, attention_matrix_distances,
    attention_registers, attention_split, attention_split_prepared,
};
use crate::backend::vulkan::kernel::{Extent, Variant};
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::{Attention, Counts, Dim};
use crate::{Error, Result};

/// The results of a wider head would not fit an invocation's registers.
pub(super) const MOST_HEAD_DIM: usize = 256;

/// Beyond the length of any text, and far from overflow of the shader's integers.
const FAR: u32 = 1 << 30;

/// Place of dropout's key among the operands.
const KEY: usize = 5;

/// The column of an operand that is absent.
pub(super) const NONE: u32 = u32::MAX;

/// The push block of all builds.
type Push = attention::Push;

type Of = Row<Attention, Push, Blocks>;

static BUILDS: [Of; 12] = [
    Of::of::<attention_matrix::Constants>(&attention::KERNEL, How::Matrix, matrix::blocks).at_any_width(),
    Of::of::<attention_registers::Constants>(&attention::KERNEL, How::Registers, registers::blocks),
    Of::of::<attention_split_prepared::Constants>(&attention::KERNEL, How::Prepared, split::prepared),
    Of::of::<attention_split::Constants>(&attention::KERNEL, How::Split, split::blocks),
    Of::of::<attention::Constants>(&attention::KERNEL, How::Plain, |_, op, _| Ok(Blocks::of(op))),
    Of::of::<attention_matrix::Constants>(&attention_masked::KERNEL, How::Matrix, matrix::blocks).at_any_width(),
    Of::of::<attention_registers::Constants>(&attention_masked::KERNEL, How::Registers, registers::blocks),
    Of::of::<attention_split_prepared::Constants>(&attention_masked::KERNEL, How::Prepared, split::prepared),
    Of::of::<attention_split::Constants>(&attention_masked::KERNEL, How::Split, split::blocks),
    Of::of::<attention_masked::Constants>(&attention_masked::KERNEL, How::Plain, |_, op, _| Ok(Blocks::of(op))),
    Of::of::<attention_matrix_distances::Constants>(&attention_distances::KERNEL, How::Matrix, matrix::blocks)
        .at_any_width(),
    Of::of::<attention_distances::Constants>(&attention_distances::KERNEL, How::Plain, |_, op, _| Ok(Blocks::of(op))),
];

/// Adds the node's dispatch.
pub fn attention(to: &mut Lowering<'_>, op: &Attention) -> Result<()> {
    let masked = op.hides() || op.bias || op.soft_cap > 0.0 || op.dropout > 0.0;
    let kernel = match (op.distances.is_some(), masked) {
        (true, _) => &attention_distances::KERNEL,
        (false, true) => &attention_masked::KERNEL,
        (false, false) => &attention::KERNEL,
    };
    let heads = Extent::Fixed(op.heads as u32);
    let chosen = choose(to, kernel, [op.head_dim; 2], &BUILDS, op)?;
    if chosen.how != How::Plain {
        let per = match chosen.how {
            How::Registers => {
                asked(op, true, chosen.tile.block_q, to.capabilities)?;
                chosen.tile.block_q
            }
            how => {
                if how == How::Matrix {
                    asked(op, true, chosen.tile.invocations, to.capabilities)?;
                }
                let rows = chosen.variant.matrix().map_or(1, |[rows, ..]| rows);
                rows * chosen.tile.subgroups / chosen.tile.sharing
            }
        };
        let mut given = Vec::new();
        if chosen.how == How::Prepared {
            split::split(to, op, chosen.tile.unit)?;
            given = ["queries", "keys", "values"].into_iter().zip(to.all_scratch()).collect();
        }
        let build = (chosen.make)(to, push(to, op, chosen.tile.unit as usize), chosen.tile)?;
        return to.add(build, "", &given, [Extent::TextTiles { per }, heads, Extent::Continued { axis: 0 }]);
    }
    let variant = to.select(kernel)?;
    to.check_narrow(variant.stored, false)?;
    if op.head_dim > MOST_HEAD_DIM {
        let reason = format!("head_dim is {}, at most {MOST_HEAD_DIM} is possible", op.head_dim);
        return Err(Error::unsupported("attention", reason));
    }
    let push = push(to, op, 1);
    let [a_column, b_column, distance_columns] = distances(to, op);
    let mut far = [a_column, b_column, distance_columns].into_iter().filter(|step| *step != NONE);
    let aligned = starts_at(to, op, 0, 4).is_ok();
    let vector = aligned && far.all(|step| step % 4 == 0);
    if variant.stored.is_narrow() && !vector {
        let reason = format!("head_dim {} or a column is no multiple of four", op.head_dim);
        return Err(Error::Unsupported { what: format!("attention in {}", variant.stored.name()), reason });
    }
    let invocations = op.blocks.map_or(0, |[block_q, _]| block_q.saturating_mul(4));
    let config = asked(op, false, invocations, to.capabilities)?.unwrap_or_else(|| usual(to.capabilities));
    // A user's shader without this constant has tiles of 64.
    let told = |name| variant.constants.iter().any(|constant| constant.name == name);
    let FlashAttentionConfig { block_q, block_kv, .. } = if told("block_q") { config } else { DEFAULT_CONFIG };
    if op.soft_cap > 0.0 && !told("soft_cap") {
        return Err(Error::unsupported("attention", format!("{} has no constant SOFT_CAP", variant.name)));
    }
    if op.dropout > 0.0 && !told("dropout") {
        return Err(Error::unsupported("attention", format!("{} has no constant DROPOUT", variant.name)));
    }
    let blocks = Blocks { vector, block_q, block_kv, invocations: 4 * block_q, ..chosen.tile };
    let blocks = Blocks { a_column, b_column, distance_columns, ..blocks };
    let build = (chosen.make)(to, push, blocks)?;
    let key = (op.dropout > 0.0).then(|| ("bias", to.operand(KEY)));
    to.add(
        build,
        "",
        key.as_slice(),
        [Extent::Tiles { dim: Dim::Tokens, per: block_q }, heads, Extent::Continued { axis: 0 }],
    )
}

impl Blocks {
    /// The constants that follow from the op.
    pub(super) fn of(op: &Attention) -> Self {
        let (causal, window, bias) = (op.causal, op.window > 0, op.bias);
        let (head_dim, soft_cap, dropout) = (op.head_dim as u32, op.soft_cap, op.dropout);
        Blocks { head_dim, causal, window, bias, soft_cap, dropout, sharing: 1, unit: 1, ..Blocks::default() }
    }

    /// The same with the shape of the variant's matrices, and which lane holds what of them.
    pub fn on_cores(self, variant: &Variant, capabilities: &Capabilities) -> Self {
        let [matrix_m, matrix_n, matrix_k] = variant.matrix().unwrap_or([1; 3]);
        let MatrixRows { row_lanes, run } = capabilities.matrix_rows;
        Blocks { matrix_m, matrix_n, matrix_k, row_lanes, run, ..self }
    }
}

/// Of the queries, the keys and the values: the operand's place, its heads, and the column of the first.
pub(super) fn products(op: &Attention) -> [[usize; 3]; 3] {
    [[0, op.heads, op.q_column], [1, op.kv_heads, op.k_column], [2, op.kv_heads, op.v_column]]
}

/// The elements, at most eight, at whose multiples all rows and heads of the operands start, of which the queries are at a
/// place.
pub fn unit(to: &Lowering<'_>, op: &Attention, queries: usize) -> u32 {
    let [q, k, v] = [0, 1, 2].map(|place| to.shape(queries + place).columns());
    unit_of(&[q, k, v, op.q_column, op.k_column, op.v_column, op.head_dim])
}

/// Whether it is so many elements, or a multiple.
pub fn starts_at(to: &Lowering<'_>, op: &Attention, queries: usize, elements: u32) -> Fit<()> {
    if unit(to, op, queries) >= elements { Ok(()) } else { Err("heads start at odd columns") }
}

/// The first columns of terms by distance, [`NONE`] where there are none, and the columns of their operand.
fn distances(to: &Lowering<'_>, op: &Attention) -> [u32; 3] {
    let [a, b] = op.distances.unwrap_or_default().map(|column| column.map_or(NONE, |at| at as u32));
    [a, b, if op.distances.is_some() { to.shape(5).columns() as u32 } else { 0 }]
}

/// The push block of all builds: lengths of rows and columns are in units of `unit` elements.
pub(super) fn push(to: &Lowering<'_>, op: &Attention, unit: usize) -> Push {
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

/// The blocks that the op requests, if the device supports them and so many invocations; `half_precision` states whether
/// they are for a build in 16 bits.
fn asked(
    op: &Attention,
    half_precision: bool,
    lanes: u32,
    capabilities: &Capabilities,
) -> Result<Option<FlashAttentionConfig>> {
    let Some([block_q, block_kv]) = op.blocks else { return Ok(None) };
    let config = FlashAttentionConfig { block_q, block_kv, head_dim: op.head_dim as u32, half_precision };
    validate_config(config, capabilities.shared_memory.into())?;
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
fn usual(capabilities: &Capabilities) -> FlashAttentionConfig {
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
