//! Dispatches of `layer_norm_linear`: the rows' moments, then the product; one product a slice of the weight's rows where
//! it is too large to bind.

use super::rows::{Held, Rows, slices};
use crate::Result;
use crate::backend::vulkan::generated::{layer_norm_linear, layer_norm_moments};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::{ActivationKind, Counts, LayerNormLinear};

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &LayerNormLinear) -> Result<()> {
    moments(lowering, node, op)?;
    let variant = lowering.select(&layer_norm_linear::KERNEL, node)?;
    let rows = Rows::of(lowering.shape(node.result))?;
    let weight = lowering.shape(node.operands[3]);
    let (n, k) = (weight.rows().size(Counts::default()), weight.columns());
    let constants = layer_norm_linear::Constants {
        tile_m: 128,
        tile_n: if n <= 64 { 64 } else { 128 },
        tile_k: 16,
        vector: k.is_multiple_of(4),
        bias: op.bias,
        activation: op.activation.unwrap_or(ActivationKind::Identity) as u32,
        vector_y: n.is_multiple_of(4),
    };
    let [x, norm_weight, norm_bias, weight] = [0, 1, 2, 3].map(|place| lowering.range(node.operands[place]));
    let row_bytes = (k * variant.stored.size()) as u64;
    for slice in slices(weight, n, row_bytes, lowering.capabilities)? {
        let bindings = layer_norm_linear::Bindings {
            counts: Range::whole(Resource::Counts),
            x,
            moments: lowering.scratch(node)?,
            norm_weight,
            norm_bias,
            weight: slice.range,
            // Without bias, something that is read anyway stands in its place.
            bias: if op.bias { lowering.range(node.operands[4]) } else { norm_bias },
            y: lowering.range(node.result),
        };
        let push = layer_norm_linear::Push {
            rows_of: rows.rows_of(),
            rows: rows.fixed(),
            n: slice.rows,
            k: k as u32,
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

/// Mean of each row, and 1 / sqrt(var + eps).
fn moments(lowering: &mut Lowering<'_>, node: &Node, op: &LayerNormLinear) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.operands[0]))?;
    let form = Held::of(rows.columns);
    let variant = lowering.select(&layer_norm_moments::KERNEL, node)?;
    let bindings = layer_norm_moments::Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        y: lowering.scratch(node)?,
    };
    let push =
        layer_norm_moments::Push { rows_of: rows.rows_of(), rows: rows.fixed(), columns: rows.columns, eps: op.eps };
    let Held { lanes, quads, held, vector } = form;
    lowering.push(Dispatch {
        label: format!("{} moments", node.name),
        variant,
        constants: layer_norm_moments::Constants { lanes, quads, held, vector }.values(variant),
        bindings: bindings.into_array().to_vec(),
        push: bytemuck::bytes_of(&push).to_vec(),
        grid: form.grid(rows),
    })
}
