//! Dispatches of `softmax_backward`.

use super::rows::{Held, Rows};
use crate::Result;
use crate::backend::vulkan::generated::softmax_backward::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::SoftmaxBackward;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, _op: &SoftmaxBackward) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.result))?;
    let form = Held::of(rows.columns);
    let variant = lowering.select(&KERNEL, node)?;
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        g: lowering.range(node.operands[0]),
        p: lowering.range(node.operands[1]),
        y: lowering.range(node.result),
    };
    let push = Push { rows_of: rows.rows_of(), rows: rows.fixed(), columns: rows.columns };
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
