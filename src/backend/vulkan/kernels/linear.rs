//! Dispatches of `linear`: one, or one a slice of the weight's rows where it is too large to bind.

use super::linear_matrix;
use super::rows::{Rows, Slice, slices};
use crate::Result;
use crate::backend::vulkan::generated::{linear, linear_shuffle};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource, Variant};
use crate::backend::vulkan::lower::Lowering;
use crate::backend::vulkan::{Capabilities, DeviceType, Feature};
use crate::dtype::DType;
use crate::graph::Node;
use crate::ops::{ActivationKind, Counts, Linear, Residual, Shape};

/// Invocations of a workgroup of `linear-shuffle.glsl`.
pub(super) const SHUFFLE_INVOCATIONS: u32 = 64;

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &Linear) -> Result<()> {
    let stored = lowering.plan.graph.value(node.operands[1]).dtype;
    let shapes: Vec<&Shape> = node.operands.iter().map(|id| lowering.shape(*id)).collect();
    let replaced = lowering.replaced(&linear::KERNEL, node).is_some();
    if stored == DType::F16 && !replaced && linear_matrix::fits(&shapes, lowering.capabilities) {
        return linear_matrix::lower(lowering, node, op);
    }
    let rows = Rows::of(lowering.shape(node.result))?;
    let weight = lowering.shape(node.operands[1]);
    let (n, k) = (weight.rows().size(Counts::default()), weight.columns() as u32);
    let (x, weight) = (lowering.range(node.operands[0]), lowering.range(node.operands[1]));
    for slice in slices(weight, n, stored.bytes(k as usize) as u64, lowering.capabilities)? {
        let product = Product {
            label: &node.name,
            op,
            x,
            slice,
            // Without bias or residual, something that is read anyway stands in their place.
            bias: if op.bias { lowering.range(node.operands[2]) } else { x },
            residual: op.residual_operand().map_or(x, |place| lowering.range(node.operands[place])),
            y: lowering.range(node.result),
            rows,
            k,
            y_columns: n as u32,
        };
        // A user's shader has the interface of the tiled one.
        let dispatch = if shuffles(lowering.capabilities) && !replaced {
            product.shuffled(lowering.select(&linear_shuffle::KERNEL, node)?)
        } else {
            product.tiled(lowering.select(&linear::KERNEL, node)?, lowering.capabilities)
        };
        lowering.push(dispatch)?;
    }
    Ok(())
}

/// What a workgroup of the builds of `linear.glsl` computes, and how far it goes along k at a time. No tile changes a bit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tile {
    pub(super) m: u32,
    pub(super) n: u32,
    pub(super) k: u32,
    /// Whether no step hangs over the end of a row.
    pub(super) whole: bool,
}

impl Tile {
    /// 128 x 128, narrower for few columns; of k as much as fits rows and shared memory.
    pub(super) fn choose(n: u32, k: u32, capabilities: &Capabilities) -> Tile {
        let tile = |step| Tile { m: 128, n: if n <= 64 { 64 } else { 128 }, k: step, whole: k.is_multiple_of(step) };
        let long = tile(32);
        if long.whole && long.shared_bytes() <= capabilities.shared_memory { long } else { tile(16) }
    }

    /// Of the shader: rows of x and of the weight in groups of four k, with one more.
    fn shared_bytes(self) -> u32 {
        (self.m + self.n) * (self.k / 4 + 1) * 16
    }
}

/// Whether lanes are better fed by shuffles than from shared memory: so it is where shared memory is emulated.
/// Both builds give the same bits.
pub(super) fn shuffles(capabilities: &Capabilities) -> bool {
    capabilities.device_type == DeviceType::Software
        && capabilities.has(Feature::SubgroupShuffle)
        && SHUFFLE_INVOCATIONS.is_multiple_of(capabilities.subgroup_size.max(1))
}

/// One dispatch in the making.
struct Product<'a> {
    label: &'a str,
    op: &'a Linear,
    x: Range,
    slice: Slice,
    bias: Range,
    residual: Range,
    y: Range,
    rows: Rows,
    k: u32,
    y_columns: u32,
}

impl Product<'_> {
    fn activation(&self) -> u32 {
        self.op.activation.unwrap_or(ActivationKind::Identity) as u32
    }

    /// Through shared memory.
    fn tiled(&self, variant: &'static Variant, capabilities: &Capabilities) -> Dispatch {
        let tile = Tile::choose(self.y_columns, self.k, capabilities);
        let constants = linear::Constants {
            tile_m: tile.m,
            tile_n: tile.n,
            tile_k: tile.k,
            whole: tile.whole,
            vector: self.k.is_multiple_of(4),
            bias: self.op.bias,
            activation: self.activation(),
            residual: self.op.residual == Residual::Added,
            vector_y: self.y_columns.is_multiple_of(4),
        };
        let bindings = linear::Bindings {
            counts: Range::whole(Resource::Counts),
            x: self.x,
            weight: self.slice.range,
            bias: self.bias,
            residual: self.residual,
            y: self.y,
        };
        let push = linear::Push {
            rows_of: self.rows.rows_of(),
            rows: self.rows.fixed(),
            n: self.slice.rows,
            k: self.k,
            column: self.slice.first,
            y_columns: self.y_columns,
        };
        Dispatch {
            label: self.label.to_owned(),
            variant,
            constants: constants.values(variant),
            bindings: bindings.into_array().to_vec(),
            push: bytemuck::bytes_of(&push).to_vec(),
            grid: [Extent::Fixed(self.slice.rows.div_ceil(tile.n)), self.rows.tiles(tile.m), Extent::Fixed(1)],
        }
    }

    /// Through subgroup shuffles.
    fn shuffled(&self, variant: &'static Variant) -> Dispatch {
        let constants = linear_shuffle::Constants {
            rows: 16,
            columns: if self.y_columns <= 64 && !variant.stored.is_narrow() { 1 } else { 4 },
            vector: self.k.is_multiple_of(4),
            bias: self.op.bias,
            activation: self.activation(),
            residual: self.op.residual == Residual::Added,
            vector_y: self.y_columns.is_multiple_of(4),
        };
        let bindings = linear_shuffle::Bindings {
            counts: Range::whole(Resource::Counts),
            x: self.x,
            weight: self.slice.range,
            bias: self.bias,
            residual: self.residual,
            y: self.y,
        };
        let push = linear_shuffle::Push {
            rows_of: self.rows.rows_of(),
            rows: self.rows.fixed(),
            n: self.slice.rows,
            k: self.k,
            column: self.slice.first,
            y_columns: self.y_columns,
        };
        Dispatch {
            label: self.label.to_owned(),
            variant,
            constants: constants.values(variant),
            bindings: bindings.into_array().to_vec(),
            push: bytemuck::bytes_of(&push).to_vec(),
            grid: [
                Extent::Fixed(self.slice.rows.div_ceil(SHUFFLE_INVOCATIONS * constants.columns)),
                self.rows.tiles(constants.rows),
                Extent::Fixed(1),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vulkan::shared_bytes;

    #[test]
    fn a_tile_needs_what_its_shader_declares_and_fits_the_device() {
        let variant = &linear::KERNEL.variants[0];
        for shared_memory in [32 << 10, 48 << 10] {
            let able = Capabilities { shared_memory, ..Capabilities::floor() };
            for (n, k) in [(768, 384), (64, 384), (768, 48), (768, 100)] {
                let tile = Tile::choose(n, k, &able);
                let constants = linear::Constants {
                    tile_m: tile.m,
                    tile_n: tile.n,
                    tile_k: tile.k,
                    ..linear::Constants::default()
                };
                let declared = shared_bytes(variant, &constants.values(variant));
                assert_eq!(tile.shared_bytes(), declared, "{tile:?}");
                assert!(declared <= shared_memory, "{tile:?} in {shared_memory}");
                let steps = if n == 768 && shared_memory < 40 << 10 { 16 } else { 32 };
                let expected = if k == 384 { (steps, true) } else { (16, k == 48) };
                assert_eq!((tile.k, tile.whole), expected, "{n} {k} {shared_memory}");
            }
        }
    }
}
