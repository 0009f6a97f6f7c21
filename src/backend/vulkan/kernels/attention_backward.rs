//! Dispatches of `attention_backward`: what is known of queries and of keys, then a gradient each, that in `q` first: it
//! leaves the sums of weights that the others read. In 16 bits on matrix cores, those in `k` and `v` are one dispatch.

use super::rows::{Rows, along};
use crate::Result;
use crate::backend::vulkan::generated::{
    attention_backward as queries, attention_backward_key_rows as key_places, attention_backward_keys as keys,
    attention_backward_matrix as matrix, attention_backward_matrix_keys as matrix_keys,
    attention_backward_rows as query_places, attention_backward_values as values,
};
use crate::backend::vulkan::kernel::{Extent, Specialization, Variant};
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::backend::vulkan::shared_bytes;
use crate::dtype::DType;
use crate::ops::{Attention, AttentionBackward, Counts, Dim};

/// The results of a wider head would not fit an invocation's registers.
const MOST_HEAD_DIM: usize = 256;
/// The same, of results on matrix cores.
const MOST_MATRIX_HEAD_DIM: usize = 128;
/// Beyond the length of any text, and far from overflow of the shader's integers.
const FAR: u32 = 1 << 30;
/// Rows per workgroup.
const BLOCK: u32 = 64;
/// Position of biases, or of dropout's key, among the operands.
const BIAS: usize = 7;

/// `attention_backward`
pub fn attention_backward(to: &mut Lowering<'_>, op: &AttentionBackward) -> Result<()> {
    let of = &op.of;
    let stored = to.stored()?;
    let matrices = stored != DType::F32 && serves_matrices(to, op, stored);
    if !matrices {
        to.without_matrix_cores(stored)?;
    }
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
    to.add(build, "rows", &[], along(each(of_queries, heads).tiles(256)))?;
    let variant = key_places::KERNEL.own(DType::F32, to.capabilities)?;
    let build = Build::new(variant, places(of_keys, fields[1]), key_places::Constants {});
    to.add(build, "key rows", &[], along(of_keys.tiles(256)))?;

    if matrices {
        return on_matrix_cores(to, op, [of_queries, of_keys]);
    }
    let push = push(to, op);
    let steps = [push.q_stride, push.q_column, push.k_stride, push.k_column, push.v_stride, push.v_column];
    let vector = of.head_dim.is_multiple_of(4) && steps.into_iter().all(|step| step % 4 == 0);
    if stored.is_narrow() && !vector {
        return Err(to.unsupported(format!("head_dim {} or a column is no multiple of four", of.head_dim)));
    }
    let head_dim = of.head_dim as u32;
    let results = to.results();
    let grid = |rows: Rows, heads: usize| [rows.tiles(BLOCK), Extent::Fixed(heads as u32), Extent::ONE];
    let own = |place: usize| results[if op.packed { 0 } else { place }];
    // The biases, or dropout's key in their place; where there is neither, nothing reads it.
    let bias = to.operand(if to.operands() > BIAS { BIAS } else { 0 });
    let with = |name: &'static str, place: usize| [("bias", bias), (name, own(place))];
    // Whether a result has columns of no head.
    let others = |place: usize| {
        let (_, columns) = op.columns()[place];
        u32::from(!op.packed && to.shape(2 + place).columns() > columns)
    };
    let pushes = [0, 1, 2].map(|place| queries::Push { others: others(place), ..push });
    let dropout = of.dropout;
    let constants = queries::Constants { head_dim, vector, dropout };
    let build = Build::new(to.select(&queries::KERNEL)?, pushes[0], constants);
    to.add(build, "of queries", &with("dq", 0), grid(of_queries, of.heads))?;
    let build = Build::new(to.select(&keys::KERNEL)?, pushes[1], keys::Constants { head_dim, vector, dropout });
    to.add(build, "of keys", &with("dk", 1), grid(of_keys, of.kv_heads))?;
    let build = Build::new(to.select(&values::KERNEL)?, pushes[2], values::Constants { head_dim, vector, dropout });
    to.add(build, "of values", &with("dv", 2), grid(of_keys, of.kv_heads))
}

/// Whether there are matrix cores that can run it.
fn serves_matrices(to: &Lowering<'_>, op: &AttentionBackward, stored: DType) -> bool {
    let of = &op.of;
    let [q, k, v] = [2, 3, 4].map(|place| to.shape(place).columns());
    let steps = [q, of.q_column, k, of.k_column, v, of.v_column];
    let all = op.packed || [q, k, v].into_iter().zip(op.columns()).all(|(columns, (_, own))| columns == own);
    let (head_dim, causal) = (of.head_dim as u32, of.causal);
    let constants = matrix_keys::Constants { head_dim, causal };
    let fits =
        |variant: &'static Variant| shared_bytes(variant, &constants.values(variant)) <= to.capabilities.shared_memory;
    matrix_keys::KERNEL.own(stored, to.capabilities).is_ok_and(fits)
        && of.head_dim.is_multiple_of(16)
        && of.head_dim <= MOST_MATRIX_HEAD_DIM
        && steps.iter().all(|step| step.is_multiple_of(8))
        && all
        && !(of.window > 0 || of.bias || of.align_end || of.soft_cap > 0.0 || of.shared_by > 1 || of.dropout > 0.0)
        && to.capabilities.subgroup_size == 32
}

/// The gradient of queries, then those of keys and values.
fn on_matrix_cores(to: &mut Lowering<'_>, op: &AttentionBackward, [of_queries, of_keys]: [Rows; 2]) -> Result<()> {
    let of = &op.of;
    let all = push(to, op);
    let push = matrix::Push {
        heads: all.heads,
        group: all.group,
        q_stride: all.q_stride,
        q_column: all.q_column,
        k_stride: all.k_stride,
        k_column: all.k_column,
        v_stride: all.v_stride,
        v_column: all.v_column,
        scale: all.scale,
    };
    let results = to.results();
    let own = |place: usize| results[if op.packed { 0 } else { place }];
    let (head_dim, causal) = (of.head_dim as u32, of.causal);
    let grid = |rows: Rows, heads: usize| [rows.tiles(BLOCK), Extent::Fixed(heads as u32), Extent::ONE];
    let build = Build::new(to.select(&matrix::KERNEL)?, push, matrix::Constants { head_dim, causal });
    to.add(build, "of queries", &[("dq", own(0))], grid(of_queries, of.heads))?;
    let build = Build::new(to.select(&matrix_keys::KERNEL)?, push, matrix_keys::Constants { head_dim, causal });
    to.add(build, "of keys and values", &[("dk", own(1)), ("dv", own(2))], grid(of_keys, of.kv_heads))
}

/// So many rows for each.
fn each(rows: Rows, number: u32) -> Rows {
    let count = match rows.count {
        Dim::Fixed(n) => Dim::Fixed(n * number as usize),
        counted => counted,
    };
    Rows { count, rows: rows.rows * number, ..rows }
}

/// The push block of all builds of `attention-backward`.
fn push(to: &Lowering<'_>, op: &AttentionBackward) -> queries::Push {
    let of: &Attention = &op.of;
    let [q_stride, k_stride, v_stride] = [2, 3, 4].map(|place| to.shape(place).columns() as u32);
    let [q_column, k_column, v_column] = op.columns().map(|(first, _)| first as u32);
    let bias = of.bias.then(|| to.shape(BIAS));
    queries::Push {
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
