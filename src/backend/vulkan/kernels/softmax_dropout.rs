//! Dispatches of `softmax_dropout`: as those of `softmax`.

use super::rows::{Held, Rows};
use super::softmax::Mask;
use crate::Result;
use crate::backend::vulkan::generated::softmax_dropout::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::SoftmaxDropout;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &SoftmaxDropout) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.result))?;
    let form = Held::of(rows.columns);
    let variant = lowering.select(&KERNEL, node)?;
    let mask = Mask::of(lowering, node)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        keep: lowering.range(mask.operand),
        y: lowering.range(node.result),
    };
    let push = Push {
        rows_of: rows.rows_of(),
        rows: rows.fixed(),
        columns: rows.columns,
        queries: mask.queries,
        size_1: mask.sizes[1],
        size_2: mask.sizes[2],
        step_0: mask.steps[0],
        step_1: mask.steps[1],
        step_2: mask.steps[2],
        p: op.p,
        seed_0: op.seed as u32,
        seed_1: (op.seed >> 32) as u32,
        offset_0: op.offset as u32,
        offset_1: (op.offset >> 32) as u32,
    };
    let Held { lanes, quads, held, vector } = form;
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { lanes, quads, held, vector, mask: mask.kind, causal: op.causal }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: form.grid(rows),
    })
}
