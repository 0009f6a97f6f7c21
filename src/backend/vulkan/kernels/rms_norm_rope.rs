//! Dispatches of `rms_norm_rope`: one.

use super::rows::{Held, Rows};
use crate::backend::vulkan::generated::rms_norm_rope::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::{Dim, RmsNormRope};
use crate::{Error, Result};

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &RmsNormRope) -> Result<()> {
    let shape = lowering.shape(node.operands[0]);
    let [batch, places, heads, head] = shape.fixed_axes("rms_norm_rope", "x")?[..] else {
        return Err(Error::InvalidArgument(format!("rms_norm_rope: x has shape {shape}, expected [B, S, H, D]")));
    };
    let columns = lowering.shape(node.operands[1]).columns();
    let place_rows = heads * head / columns.max(1);
    let rows = Rows { count: Dim::Fixed(batch * places * place_rows), columns: columns as u32 };
    let whole_quads = head.is_multiple_of(8);
    let form = Held::of(rows.columns);
    let form = Held { vector: form.vector && whole_quads, ..form };
    let shared = lowering.shape(node.operands[2]).0.len() == 2;
    let variant = lowering.select(&KERNEL, node)?;
    if variant.stored.is_narrow() && !whole_quads {
        let what = format!("rms_norm_rope in {}", variant.stored.name());
        return Err(Error::Unsupported { what, reason: format!("a head has {head} columns, no multiple of eight") });
    }
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        weight: lowering.range(node.operands[1]),
        cosine: lowering.range(node.operands[2]),
        sine: lowering.range(node.operands[3]),
        y: lowering.range(node.result),
    };
    let push = Push {
        rows_of: rows.rows_of(),
        rows: rows.fixed(),
        columns: rows.columns,
        eps: op.0.eps,
        half_head: (head / 2) as u32,
        place_rows: place_rows as u32,
        angles: (if shared { places } else { batch * places }) as u32,
    };
    let Held { lanes, quads, held, vector } = form;
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { lanes, quads, held, vector }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: form.grid(rows),
    })
}
