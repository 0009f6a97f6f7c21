//! Dispatches of `layer_norm_linear`: the rows' moments, then the product; one product a slice of the weight's rows where
//! it is too large to bind.

use super::linear::{SHUFFLE_INVOCATIONS, shuffles};
use super::linear_matrix::{self, Product, Tile};
use super::rows::{Held, Rows, slices};
use crate::Result;
use crate::backend::vulkan::generated::{
    layer_norm_linear, layer_norm_linear_matrix, layer_norm_linear_shuffle, layer_norm_moments,
};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource, Variant};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::{ActivationKind, Counts, LayerNormLinear};

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &LayerNormLinear) -> Result<()> {
    moments(lowering, node, op)?;
    if linear_matrix::serves(lowering, node, &layer_norm_linear::KERNEL, [0, 3]) {
        return on_matrix_cores(lowering, node, op);
    }
    let rows = Rows::of(lowering.shape(node.result))?;
    let weight = lowering.shape(node.operands[3]);
    let (n, k) = (weight.rows().size(Counts::default()), weight.columns());
    let Build { variant, constants, columns, tile } = build(lowering, node, op, (n, k))?;
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
            constants: constants.clone(),
            bindings: bindings.into_array().to_vec(),
            push: bytemuck::bytes_of(&push).to_vec(),
            grid: [Extent::Fixed(slice.rows.div_ceil(columns)), rows.tiles(tile), Extent::Fixed(1)],
        })?;
    }
    Ok(())
}

fn on_matrix_cores(lowering: &mut Lowering<'_>, node: &Node, op: &LayerNormLinear) -> Result<()> {
    let product = Product::of(lowering, node, 3, 1)?;
    let variant = lowering.select(&layer_norm_linear_matrix::KERNEL, node)?;
    let Tile { m: tile_m, n: tile_n, k: tile_k, subgroups } = product.tile;
    let (bias, activation) = (op.bias, op.activation.unwrap_or(ActivationKind::Identity) as u32);
    let constants = layer_norm_linear_matrix::Constants { bias, activation, tile_m, tile_n, tile_k, subgroups };
    let [x, norm_weight, norm_bias, weight] = [0, 1, 2, 3].map(|place| lowering.range(node.operands[place]));
    let bindings = layer_norm_linear_matrix::Bindings {
        counts: Range::whole(Resource::Counts),
        x,
        moments: lowering.scratch(node)?,
        norm_weight,
        norm_bias,
        weight,
        bias: if op.bias { lowering.range(node.operands[4]) } else { norm_bias },
        y: lowering.range(node.result),
    };
    lowering.push(product.dispatch(node, variant, constants.values(variant), &bindings.into_array()))
}

/// The product's shader, and the columns and rows that a workgroup has.
struct Build {
    variant: &'static Variant,
    constants: Vec<u32>,
    columns: u32,
    tile: u32,
}

/// That of `linear` for the device: all have one interface and one order of sums.
fn build(lowering: &Lowering<'_>, node: &Node, op: &LayerNormLinear, (n, k): (usize, usize)) -> Result<Build> {
    let (vector, vector_y) = (k.is_multiple_of(4), n.is_multiple_of(4));
    let activation = op.activation.unwrap_or(ActivationKind::Identity) as u32;
    if shuffles(lowering.capabilities) {
        let variant = lowering.select(&layer_norm_linear_shuffle::KERNEL, node)?;
        let columns = if n <= 64 && !variant.stored.is_narrow() { 1 } else { 4 };
        let (bias, rows) = (op.bias, 16);
        let constants =
            layer_norm_linear_shuffle::Constants { rows, columns, vector, bias, activation, vector_y }.values(variant);
        return Ok(Build { variant, constants, columns: SHUFFLE_INVOCATIONS * columns, tile: rows });
    }
    let variant = lowering.select(&layer_norm_linear::KERNEL, node)?;
    let (tile_m, tile_n, tile_k, bias) = (128, if n <= 64 { 64 } else { 128 }, 16, op.bias);
    let constants = layer_norm_linear::Constants { tile_m, tile_n, tile_k, vector, bias, activation, vector_y };
    Ok(Build { variant, constants: constants.values(variant), columns: tile_n, tile: tile_m })
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
