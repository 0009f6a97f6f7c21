//! Dispatches of `attention_backward`: what is known of queries and of keys, then a gradient each, that in `q` first: it
//! leaves the sums of weights that the others read. In 16 bits on matrix cores, those in `k` and `v` are one dispatch.

use super::attention::starts_at;
use super::builds::{self, Fit, How, Row, choose};
use super::rows::{Rows, continued};
use crate::Result;
use crate::backend::vulkan::generated::{
    Backward, Blocks, attention_backward as queries, attention_backward_key_rows as key_places,
    attention_backward_keys as keys, attention_backward_matrix as matrix,
    attention_backward_matrix_keys as matrix_keys, attention_backward_rows as query_places,
    attention_backward_values as values,
};
use crate::backend::vulkan::kernel::{Extent, Specialization, Variant};
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::backend::vulkan::shared_bytes;
use crate::dtype::DType;
use crate::ops::{Attention, AttentionBackward, Counts, Dim};

/// The results of a wider head would not fit an invocation's registers.
const MOST_HEAD_DIM: usize = 256;
/// Beyond the length of any text, and far from overflow of the shader's integers.
const FAR: u32 = 1 << 30;
/// Rows per workgroup.
const BLOCK: u32 = 64;
/// Position of biases, or of dropout's key, among the operands.
const BIAS: usize = 7;

/// That of keys chooses for all gradients.
static BUILDS: [Row<AttentionBackward, Backward, Blocks>; 2] = [
    Row::of::<matrix_keys::Constants>(&queries::KERNEL, How::Matrix, on_matrix_cores),
    Row::of::<queries::Constants>(&queries::KERNEL, How::Plain, |to, op, _| Ok(blocks(to, &op.of))),
];

/// `attention_backward`
pub fn attention_backward(to: &mut Lowering<'_>, op: &AttentionBackward) -> Result<()> {
    let of = &op.of;
    let stored = to.stored()?;
    let chosen = choose(to, &queries::KERNEL, [of.head_dim; 2], &BUILDS, op)?;
    to.check_narrow(stored, chosen.how == How::Matrix)?;
    if of.head_dim > MOST_HEAD_DIM {
        return Err(to.unsupported(format!("head_dim is {}, at most {MOST_HEAD_DIM} is possible", of.head_dim)));
    }
    let (of_queries, of_keys) = (Rows::of(to.shape(2))?, Rows::of(to.shape(3))?);

    let heads = of.heads as u32;
    let places = |rows: Rows, fields: usize| query_places::Push {
        rows_of: rows.rows_of,
        rows: rows.rows,
        heads,
        head_dim: of.head_dim as u32,
        shared_by: of.shared_by as u32,
        fields: fields as u32,
    };
    let fields = [AttentionBackward::PLACES + 2 * of.heads, AttentionBackward::PLACES];
    let build =
        Build::new(to.select(&query_places::KERNEL)?, places(of_queries, fields[0]), query_places::Constants {});
    to.add(build, "rows", &[], continued(each(of_queries, heads).tiles(256)))?;
    let build = to.own(DType::F32, places(of_keys, fields[1]), key_places::Constants {})?;
    to.add(build, "key rows", &[], continued(of_keys.tiles(256)))?;

    let push = push(to, op);
    let grid =
        |rows: Rows, heads: usize| [rows.tiles(BLOCK), Extent::Fixed(heads as u32), Extent::Continued { axis: 0 }];
    let results = to.results();
    let own = |place: usize| results[if op.packed { 0 } else { place }];
    let tile = chosen.tile;
    if chosen.how == How::Matrix {
        let of_q = builds::build::<matrix::Constants, _, _>(to, push, tile)?;
        to.add(of_q, "of queries", &[("dq", own(0))], grid(of_queries, of.heads))?;
        let of_kv = (chosen.make)(to, push, tile)?;
        return to.add(of_kv, "of keys and values", &[("dk", own(1)), ("dv", own(2))], grid(of_keys, of.kv_heads));
    }
    if stored.is_narrow() && !tile.vector {
        return Err(to.unsupported(format!("head_dim {} or a column is no multiple of four", of.head_dim)));
    }
    // The biases, or dropout's key in their place; where there is neither, nothing reads it.
    let bias = to.operand(if to.operands() > BIAS { BIAS } else { 0 });
    let with = |name: &'static str, place: usize| [("bias", bias), (name, own(place))];
    // Whether a result has columns of no head.
    let others = |place: usize| {
        let (_, columns) = op.columns()[place];
        u32::from(!op.packed && to.shape(2 + place).columns() > columns)
    };
    let pushes = [0, 1, 2].map(|place| Backward { others: others(place), ..push });
    let of_q = (chosen.make)(to, pushes[0], tile)?;
    to.add(of_q, "of queries", &with("dq", 0), grid(of_queries, of.heads))?;
    let of_k = builds::build::<keys::Constants, _, _>(to, pushes[1], tile)?;
    to.add(of_k, "of keys", &with("dk", 1), grid(of_keys, of.kv_heads))?;
    let of_v = builds::build::<values::Constants, _, _>(to, pushes[2], tile)?;
    to.add(of_v, "of values", &with("dv", 2), grid(of_keys, of.kv_heads))
}

fn blocks(to: &Lowering<'_>, of: &Attention) -> Blocks {
    let vector = starts_at(to, of, 2, 4).is_ok();
    let (head_dim, causal, dropout) = (of.head_dim as u32, of.causal, of.dropout);
    Blocks { head_dim, causal, dropout, vector, ..Blocks::default() }
}

/// In 16 bits, of plain and causal attention.
fn on_matrix_cores(to: &Lowering<'_>, op: &AttentionBackward, variant: &'static Variant) -> Fit<Blocks> {
    let (of, blocks) = (&op.of, blocks(to, &op.of));
    let columns = [2, 3, 4].map(|place| to.shape(place).columns());
    starts_at(to, of, 2, 8)?;
    if !op.packed && columns.into_iter().zip(op.columns()).any(|(columns, (_, own))| columns != own) {
        return Err("operands have columns of no head");
    }
    if of.window > 0 || of.bias || of.align_end || of.soft_cap > 0.0 || of.shared_by > 1 || of.dropout > 0.0 {
        return Err("it is neither plain nor causal");
    }
    let cores = blocks.on_cores(variant, to.capabilities);
    let subgroups = BLOCK / cores.matrix_m;
    let blocks = Blocks { subgroups, invocations: subgroups * to.capabilities.subgroup_size, ..cores };
    let bytes = shared_bytes(variant, &matrix_keys::Constants::from(blocks).values(variant));
    let fits = bytes <= to.capabilities.shared_memory && blocks.invocations <= to.capabilities.invocations;
    if fits { Ok(blocks) } else { Err("no blocks fit the device") }
}

/// So many rows for each.
fn each(rows: Rows, number: u32) -> Rows {
    let count = match rows.count {
        Dim::Fixed(n) => Dim::Fixed(n * number as usize),
        counted => counted,
    };
    Rows { count, rows: rows.rows * number, ..rows }
}

/// The push block of all builds.
fn push(to: &Lowering<'_>, op: &AttentionBackward) -> Backward {
    let of: &Attention = &op.of;
    let [q_stride, k_stride, v_stride] = [2, 3, 4].map(|place| to.shape(place).columns() as u32);
    let [q_column, k_column, v_column] = op.columns().map(|(first, _)| first as u32);
    let bias = of.bias.then(|| to.shape(BIAS));
    Backward {
        heads: of.heads as u32,
        group: (of.heads / of.kv_heads) as u32,
        q_stride,
        q_column,
        k_stride,
        k_column,
        v_stride,
        v_column,
        scale: of.scale,
        soft_cap: of.soft_cap,
        causal: of.causal.into(),
        window: of.window.min(FAR),
        global_tokens: of.global_tokens.min(FAR),
        align_end: of.align_end.into(),
        reach: bias.map_or(of.stream, |bias| bias.columns() as u32 / 2),
        bias_rows: bias.map_or(0, |bias| bias.rows().size(Counts::default()) as u32),
        others: 0,
    }
}
