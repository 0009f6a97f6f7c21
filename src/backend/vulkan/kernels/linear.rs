//! Dispatches of `linear`: one, or one a slice of the weight's rows where it is too large to bind.

use super::rows::{Rows, slices};
use crate::Result;
use crate::backend::vulkan::generated::linear::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::{ActivationKind, Counts, Linear, Residual};

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Linear) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.result))?;
    let weight = lowering.shape(node.operands[1]);
    let (n, k) = (weight.rows().size(Counts::default()), weight.columns() as u32);
    let (x, weight) = (lowering.range(node.operands[0]), lowering.range(node.operands[1]));
    let variant = KERNEL.select(lowering.capabilities)?;
    let constants = Constants {
        tile_m: 128,
        tile_n: if n <= 64 { 64 } else { 128 },
        tile_k: 16,
        vector: k % 4 == 0,
        bias: op.bias,
        activation: op.activation.unwrap_or(ActivationKind::Identity) as u32,
        residual: op.residual == Residual::Added,
    };
    for slice in slices(weight, n, k, lowering.capabilities)? {
        let bindings = Bindings {
            counts: Range::whole(Resource::Counts),
            x,
            weight: slice.range,
            // Without bias or residual, something that is read anyway stands in their place.
            bias: if op.bias { lowering.range(node.operands[2]) } else { x },
            residual: op.residual_operand().map_or(x, |place| lowering.range(node.operands[place])),
            y: lowering.range(node.result),
        };
        let push = Push {
            rows_of: rows.rows_of(),
            rows: rows.fixed(),
            n: slice.rows,
            k,
            column: slice.first,
            y_columns: n as u32,
        };
        lowering.push(Dispatch {
            label: node.name.clone(),
            variant,
            constants: constants.values(variant),
            bindings: bindings.into_array().to_vec(),
            push: bytemuck::bytes_of(&push).to_vec(),
            grid: [
                Extent::Fixed(slice.rows.div_ceil(constants.tile_n)),
                rows.tiles(constants.tile_m),
                Extent::Fixed(1),
            ],
        })?;
    }
    Ok(())
}
