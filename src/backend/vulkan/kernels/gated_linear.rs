//! Dispatches of `gated_linear`: one on matrix cores, or one a slice of the weights' rows where they are too large to bind.

use super::linear;
use super::linear_matrix::{self, Product, Tile};
use super::rows::{Rows, slices};
use crate::Result;
use crate::backend::vulkan::generated::gated_linear::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::generated::gated_linear_matrix;
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::{Counts, GatedLinear};

/// Columns of a tile, one half of gates and one of what they gate.
const TILE: u32 = 128;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &GatedLinear) -> Result<()> {
    if linear_matrix::serves(lowering, node, &KERNEL, [0, 1]) {
        return on_matrix_cores(lowering, node, op);
    }
    let variant = lowering.select(&KERNEL, node)?;
    let rows = Rows::of(lowering.shape(node.result))?;
    let weight = lowering.shape(node.operands[1]);
    let (n, k) = (weight.rows().size(Counts::default()), weight.columns());
    let tile = linear::Tile::choose(TILE, k as u32, lowering.capabilities);
    let constants = Constants {
        tile_m: tile.m,
        tile_n: TILE,
        tile_k: tile.k,
        whole: tile.whole,
        vector: k.is_multiple_of(4),
        activation: op.kind as u32,
        vector_y: n.is_multiple_of(4),
    };
    let row_bytes = variant.stored.bytes(k) as u64;
    let cut = |operand: usize| slices(lowering.range(node.operands[operand]), n, row_bytes, lowering.capabilities);
    for (gate, up) in cut(1)?.into_iter().zip(cut(2)?) {
        let bindings = Bindings {
            counts: Range::whole(Resource::Counts),
            x: lowering.range(node.operands[0]),
            weight: gate.range,
            up: up.range,
            y: lowering.range(node.result),
        };
        let tiles = (2 * gate.rows).div_ceil(TILE);
        let push = Push {
            rows_of: rows.rows_of(),
            rows: rows.fixed(),
            n: tiles * TILE,
            k: k as u32,
            column: gate.first,
            y_columns: n as u32,
            width: gate.rows,
        };
        lowering.push(Dispatch {
            label: node.name.clone(),
            variant,
            constants: constants.values(variant),
            bindings: bindings.into_array().to_vec(),
            push: bytemuck::bytes_of(&push).to_vec(),
            grid: [Extent::Fixed(tiles), rows.tiles(tile.m), Extent::Fixed(1)],
        })?;
    }
    Ok(())
}

fn on_matrix_cores(lowering: &mut Lowering<'_>, node: &Node, op: &GatedLinear) -> Result<()> {
    let product = Product::of(lowering, node, 1, 2)?;
    let variant = lowering.select(&gated_linear_matrix::KERNEL, node)?;
    let Tile { m: tile_m, n: tile_n, k: tile_k, subgroups } = product.tile;
    let activation = op.kind as u32;
    let constants = gated_linear_matrix::Constants { activation, tile_m, tile_n, tile_k, subgroups }.values(variant);
    let bindings = gated_linear_matrix::Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        weight: lowering.range(node.operands[1]),
        up: lowering.range(node.operands[2]),
        y: lowering.range(node.result),
    };
    lowering.push(product.dispatch(node, variant, constants, &bindings.into_array()))
}
