//! Dispatches of `softmax`.

use super::rows::{Held, Rows};
use crate::backend::vulkan::generated::softmax::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::softmax::Broadcast;
use crate::ops::{Counts, Softmax};
use crate::{Error, Result};

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Softmax) -> Result<()> {
    let shape = lowering.shape(node.result);
    let rows = Rows::of(shape)?;
    let form = Held::of(rows.columns);
    let variant = lowering.select(&KERNEL, node)?;
    let queries = shape.0.iter().rev().nth(1).map_or(1, |dim| dim.size(Counts::default()));
    let keep = match node.operands.get(1) {
        None => None,
        Some(keep) => Some(Broadcast::of(shape, lowering.shape(*keep)).ok_or_else(|| {
            Error::InvalidArgument(format!("softmax: keep has shape {}, expected {shape}", lowering.shape(*keep)))
        })?),
    };
    let mask = keep.map_or(0, |keep| if keep.by_column { 1 } else { 2 });
    let Broadcast { sizes, steps, .. } = keep.unwrap_or(Broadcast { sizes: [1; 3], steps: [0; 3], by_column: false });
    let [step_0, step_1, step_2] = steps.map(|step| step as u32);
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        // Nothing reads it when there is no mask, but a binding must hold something.
        keep: lowering.range(*node.operands.get(1).unwrap_or(&node.operands[0])),
        y: lowering.range(node.result),
    };
    let push = Push {
        rows_of: rows.rows_of(),
        rows: rows.fixed(),
        columns: rows.columns,
        queries: queries as u32,
        size_1: sizes[1] as u32,
        size_2: sizes[2] as u32,
        step_0,
        step_1,
        step_2,
    };
    let Held { lanes, quads, held, vector } = form;
    lowering.push(Dispatch {
        label: node.name.clone(),
        variant,
        constants: Constants { lanes, quads, held, vector, mask, causal: op.causal }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: form.grid(rows),
    })
}
