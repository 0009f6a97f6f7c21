//! Dispatches of `linear` in float16 on matrix cores: one. `gated_linear` and `layer_norm_linear` have builds of its shader.

use super::rows::Rows;
use crate::Result;
use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::generated::linear_matrix::{Bindings, Constants, KERNEL, Push};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Kernel, Range, Resource, Variant};
use crate::backend::vulkan::lower::Lowering;
use crate::dtype::DType;
use crate::graph::Node;
use crate::ops::{ActivationKind, Counts, Dim, Linear, Residual, Shape};

/// Invocations of a workgroup.
const INVOCATIONS: u32 = 256;
/// Row tiles that walk all columns together.
const GROUP: u32 = 8;
/// Fewer tiles than this leave multiprocessors idle: smaller ones are taken, which give the same bits.
const FEW_TILES: u32 = 128;

/// What a workgroup computes, and how far it goes along k at a time. No tile changes a bit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tile {
    pub(super) m: u32,
    pub(super) n: u32,
    pub(super) k: u32,
    pub(super) subgroups: u32,
}

impl Tile {
    /// The largest that keeps the device busy and fits its shared memory.
    pub(super) fn choose(rows: Dim, n: u32, k: u32, capabilities: &Capabilities) -> Tile {
        let subgroups = INVOCATIONS / capabilities.subgroup_size.max(1);
        let few = |m: u32| matches!(rows, Dim::Fixed(rows) if (rows as u32).div_ceil(m) * n.div_ceil(128) < FEW_TILES);
        let (m, n) = if few(192) { (64, 64) } else { (192, 128) };
        let steps = [64, 32, 16].into_iter().filter(|step| k.is_multiple_of(*step));
        let mut tiles = steps.map(|k| Tile { m, n, k, subgroups });
        let small = Tile { m: 64, n: 64, k: 16, subgroups };
        tiles.find(|tile| tile.shared_bytes() <= capabilities.shared_memory).unwrap_or(small)
    }

    /// Of the shader: operands in rows of k, then half of the result's columns; beside them, where a norm is folded in, two
    /// numbers of each row and column and two steps of the norm's weight, and otherwise at most the bias.
    fn shared_bytes(self) -> u32 {
        let rows = |count: u32, columns: u32| count * (columns / 8 + 1) * 16;
        rows(self.m + self.n, self.k).max(rows(self.m, self.n / 2)) + 8 * (self.m + self.n) + 4 * self.k
    }
}

/// Whether the device multiplies operands of these shapes so.
pub(in crate::backend::vulkan) fn fits(operands: &[&Shape], capabilities: &Capabilities) -> bool {
    let [x, weight, ..] = operands else { return false };
    let subgroups = INVOCATIONS.checked_div(capabilities.subgroup_size);
    let bytes = |shape: &Shape| 2 * shape.elements(Counts::default()) as u64;
    matches!(subgroups, Some(4 | 8))
        && KERNEL.own(DType::F16, capabilities).is_ok()
        && x.columns() > 0
        && x.columns().is_multiple_of(16)
        && weight.rows().size(Counts::default()).is_multiple_of(8)
        && bytes(x).max(bytes(weight)) <= capabilities.storage_buffer_range
}

/// Whether a fused product whose x and weight are these operands runs so, in place of `kernel`.
pub(super) fn serves(lowering: &Lowering<'_>, node: &Node, kernel: &Kernel, operands: [usize; 2]) -> bool {
    let shapes = operands.map(|place| lowering.shape(node.operands[place]));
    lowering.plan.graph.value(node.result).dtype == DType::F16
        && lowering.replaced(kernel, node).is_none()
        && fits(&shapes, lowering.capabilities)
}

/// A product on matrix cores, but for what its build binds and is told besides.
pub(super) struct Product {
    rows: Rows,
    n: u32,
    k: u32,
    /// Weights whose columns a tile has side by side.
    weights: u32,
    pub(super) tile: Tile,
}

impl Product {
    /// Of so many weights, the first of which is operand `place`.
    pub(super) fn of(lowering: &Lowering<'_>, node: &Node, place: usize, weights: u32) -> Result<Self> {
        let rows = Rows::of(lowering.shape(node.result))?;
        let weight = lowering.shape(node.operands[place]);
        let (n, k) = (weight.rows().size(Counts::default()) as u32, weight.columns() as u32);
        let tile = Tile::choose(rows.count, weights * n, k, lowering.capabilities);
        Ok(Product { rows, n, k, weights, tile })
    }

    /// Its dispatch: all builds have one push block and one order of tiles.
    pub(super) fn dispatch(
        self,
        node: &Node,
        variant: &'static Variant,
        constants: Vec<u32>,
        bindings: &[Range],
    ) -> Dispatch {
        let Product { rows, n, k, weights, tile } = self;
        let push = Push { rows_of: rows.rows_of(), rows: rows.fixed(), n, k };
        let across = n.div_ceil(tile.n / weights);
        Dispatch {
            label: node.name.clone(),
            variant,
            constants,
            bindings: bindings.to_vec(),
            push: bytemuck::bytes_of(&push).to_vec(),
            grid: [Extent::Fixed(GROUP * across), rows.tiles(GROUP * tile.m), Extent::Fixed(1)],
        }
    }
}

/// Adds the node's dispatch.
pub(super) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Linear) -> Result<()> {
    let product = Product::of(lowering, node, 1, 1)?;
    let variant = lowering.select(&KERNEL, node)?;
    let Tile { m: tile_m, n: tile_n, k: tile_k, subgroups } = product.tile;
    let activation = op.activation.unwrap_or(ActivationKind::Identity) as u32;
    let residual = op.residual == Residual::Added;
    let constants =
        Constants { bias: op.bias, activation, residual, tile_m, tile_n, tile_k, subgroups }.values(variant);
    let x = lowering.range(node.operands[0]);
    let bindings = Bindings {
        counts: Range::whole(Resource::Counts),
        x,
        weight: lowering.range(node.operands[1]),
        // Without bias or residual, something that is read anyway stands in their place.
        bias: if op.bias { lowering.range(node.operands[2]) } else { x },
        residual: op.residual_operand().map_or(x, |place| lowering.range(node.operands[place])),
        y: lowering.range(node.result),
    };
    lowering.push(product.dispatch(node, variant, constants, &bindings.into_array()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vulkan::generated::layer_norm_linear_matrix as folded;
    use crate::backend::vulkan::shared_bytes;

    #[test]
    fn a_tile_needs_what_its_shader_declares_and_fits_the_device() {
        let variant = &KERNEL.variants[0];
        let able = |shared_memory| Capabilities { shared_memory, subgroup_size: 32, ..Capabilities::floor() };
        for limit in [32 << 10, 48 << 10, 64 << 10] {
            for (rows, k) in [(Dim::Tokens, 768), (Dim::Fixed(8192), 96), (Dim::Fixed(9), 48), (Dim::Fixed(9), 16)] {
                let tile = Tile::choose(rows, 1024, k, &able(limit));
                let constants =
                    Constants { tile_m: tile.m, tile_n: tile.n, tile_k: tile.k, subgroups: 8, ..Constants::default() };
                let declared = shared_bytes(variant, &constants.values(variant));
                let Constants { tile_m, tile_n, tile_k, subgroups, .. } = constants;
                let constants = folded::Constants { tile_m, tile_n, tile_k, subgroups, ..folded::Constants::default() };
                let most = shared_bytes(&folded::KERNEL.variants[0], &constants.values(&folded::KERNEL.variants[0]));
                assert_eq!(tile.shared_bytes(), most, "{tile:?}");
                assert!(declared < most && most <= limit && k.is_multiple_of(tile.k), "{tile:?} in {limit}");
            }
        }
        let large = |limit| Tile::choose(Dim::Tokens, 1024, 768, &able(limit));
        assert_eq!(large(48 << 10), Tile { m: 192, n: 128, k: 64, subgroups: 8 });
        assert_eq!(large(32 << 10), Tile { m: 192, n: 128, k: 32, subgroups: 8 });
        let few = Tile::choose(Dim::Fixed(8), 384, 384, &able(48 << 10));
        assert_eq!(few, Tile { m: 64, n: 64, k: 64, subgroups: 8 });
    }
}
