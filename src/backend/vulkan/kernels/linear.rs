//! Dispatches of `linear`: one, or one a slice of the weight's rows where it is too large to bind.

use super::linear_matrix;
use super::rows::{Rows, Slice, slices};
use crate::Result;
use crate::backend::vulkan::generated::{linear, linear_shuffle};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource, Variant};
use crate::backend::vulkan::lower::Lowering;
use crate::backend::vulkan::{Capabilities, DeviceType, Feature};
use crate::graph::{DType, Node};
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
    for slice in slices(weight, n, u64::from(k) * stored.size() as u64, lowering.capabilities)? {
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
            product.tiled(lowering.select(&linear::KERNEL, node)?)
        };
        lowering.push(dispatch)?;
    }
    Ok(())
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

    /// Through shared memory: tiles of 128 x 128, narrower where there are few columns.
    fn tiled(&self, variant: &'static Variant) -> Dispatch {
        let constants = linear::Constants {
            tile_m: 128,
            tile_n: if self.y_columns <= 64 { 64 } else { 128 },
            tile_k: 16,
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
            grid: [
                Extent::Fixed(self.slice.rows.div_ceil(constants.tile_n)),
                self.rows.tiles(constants.tile_m),
                Extent::Fixed(1),
            ],
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
