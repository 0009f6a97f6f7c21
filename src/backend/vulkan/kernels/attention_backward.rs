//! Dispatches of `attention_backward`: what is known of queries and of keys, then a gradient each, that in `q` first: it
//! leaves the sums of weights that the others read.

use super::rows::{Rows, along};
use crate::Result;
use crate::backend::vulkan::generated::{
    attention_backward as queries, attention_backward_key_rows as key_places, attention_backward_keys as keys,
    attention_backward_rows as query_places, attention_backward_values as values,
};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::ops::{Attention, AttentionBackward, Counts, Dim};

/// The results of a wider head would not fit an invocation's registers.
const MOST_HEAD_DIM: usize = 256;
/// Beyond the length of any text, and far from overflow of the shader's integers.
const FAR: u32 = 1 << 30;
/// Rows per workgroup.
const BLOCK: u32 = 64;
/// Position of biases, or of dropout's key, among the operands.
const BIAS: usize = 7;
/// Positions in the op's scratch memory.
const QUERY_ROWS: usize = 0;
const KEY_ROWS: usize = 1;

/// `attention_backward`
pub fn attention_backward(to: &mut Lowering<'_>, op: &AttentionBackward) -> Result<()> {
    let of = &op.of;
    if of.head_dim > MOST_HEAD_DIM {
        return Err(to.unsupported(format!("head_dim is {}, at most {MOST_HEAD_DIM} is possible", of.head_dim)));
    }
    let (query_rows, key_rows) = (to.scratch(QUERY_ROWS)?, to.scratch(KEY_ROWS)?);
    let given = [("query_rows", query_rows), ("key_rows", key_rows)];
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
    to.add(build, "rows", &given, along(each(of_queries, heads).tiles(256)))?;
    let build = Build::new(to.select(&key_places::KERNEL)?, places(of_keys, fields[1]), key_places::Constants {});
    to.add(build, "key rows", &given, along(of_keys.tiles(256)))?;

    let push = push(to, op);
    let steps = [push.q_stride, push.q_column, push.k_stride, push.k_column, push.v_stride, push.v_column];
    let vector = of.head_dim.is_multiple_of(4) && steps.into_iter().all(|step| step % 4 == 0);
    let head_dim = of.head_dim as u32;
    let results = to.results();
    let grid = |rows: Rows, heads: usize| [rows.tiles(BLOCK), Extent::Fixed(heads as u32), Extent::ONE];
    let own = |place: usize| results[if op.packed { 0 } else { place }];
    // The biases, or dropout's key in their place; where there is neither, nothing reads it.
    let bias = to.operand(if to.operands() > BIAS { BIAS } else { 0 });
    let with = |name: &'static str, place: usize| [given[0], given[1], ("bias", bias), (name, own(place))];
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
