//! Dispatches of `softmax`.

use super::rows::{Held, Rows};
use crate::backend::vulkan::generated::softmax::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::{Node, ValueId};
use crate::ops::softmax::Broadcast;
use crate::ops::{Counts, Softmax};
use crate::{Error, Result};

/// How `keep` lies over the rows, in the shader's numbers.
pub(super) struct Mask {
    /// `MASK`
    pub(super) kind: u32,
    /// What is bound.
    pub(super) operand: ValueId,
    /// Rows of axis -2.
    pub(super) queries: u32,
    pub(super) sizes: [u32; 3],
    pub(super) steps: [u32; 3],
}

impl Mask {
    /// That of a softmax' node.
    ///
    /// # Errors
    /// `InvalidArgument` for one that does not broadcast.
    pub(super) fn of(lowering: &Lowering<'_>, node: &Node) -> Result<Mask> {
        let shape = lowering.shape(node.result);
        let queries = shape.0.iter().rev().nth(1).map_or(1, |dim| dim.size(Counts::default()));
        // Nothing reads the operand when there is no mask, but a binding must hold something.
        let mut mask =
            Mask { kind: 0, operand: node.operands[0], queries: queries as u32, sizes: [1; 3], steps: [0; 3] };
        if let Some(keep) = node.operands.get(1) {
            let over = Broadcast::of(shape, lowering.shape(*keep)).ok_or_else(|| {
                Error::InvalidArgument(format!("softmax: keep has shape {}, expected {shape}", lowering.shape(*keep)))
            })?;
            mask.kind = if over.by_column { 1 } else { 2 };
            mask.operand = *keep;
            mask.sizes = over.sizes.map(|size| size as u32);
            mask.steps = over.steps.map(|step| step as u32);
        }
        Ok(mask)
    }
}

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Softmax) -> Result<()> {
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
