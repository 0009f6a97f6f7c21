//! Dispatches of `residual_rms_norm`.

use super::rows::{Held, Rows};
use crate::Result;
use crate::backend::vulkan::generated::residual_rms_norm::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::ResidualRmsNorm;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &ResidualRmsNorm) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.result))?;
    let form = Held::of(rows.columns);
    let variant = lowering.select(&KERNEL, node)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        residual: lowering.range(node.operands[1]),
        weight: lowering.range(node.operands[2]),
        y: lowering.range(node.result),
    };
    let push = Push { rows_of: rows.rows_of(), rows: rows.fixed(), columns: rows.columns, eps: op.0.eps };
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
