//! Dispatches of `layer_norm_linear`: the rows' moments, then the product, one a slice of the weight's rows where it is too
//! large to bind. In 16 bits the norm is folded into the product, for which the columns' sums are made between the two.

use super::linear::{self, SHUFFLE_INVOCATIONS, shuffles};
use super::linear_matrix::{self, Product};
use super::rows::{Held, Rows, Slice, slices};
use crate::Result;
use crate::backend::vulkan::generated::{
    layer_norm_columns, layer_norm_linear, layer_norm_linear_folded, layer_norm_linear_folded_shuffle,
    layer_norm_linear_matrix, layer_norm_linear_shuffle, layer_norm_moments,
};
use crate::backend::vulkan::kernel::{Dispatch, Extent, Range, Resource, Variant};
use crate::backend::vulkan::lower::Lowering;
use crate::graph::Node;
use crate::ops::{ActivationKind, Counts, Dim, LayerNormLinear};

/// Adds the node's dispatches.
pub(in crate::backend::vulkan) fn lower(lowering: &mut Lowering<'_>, node: &Node, op: &LayerNormLinear) -> Result<()> {
    moments(lowering, node, op)?;
    let stored = lowering.plan.graph.value(node.result).dtype;
    let folded = stored.is_narrow() && lowering.replaced(&layer_norm_linear::KERNEL, node).is_none();
    let on_matrix_cores = linear_matrix::serves(lowering, node, &layer_norm_linear::KERNEL, [0, 3]);
    let weight = lowering.shape(node.operands[3]);
    let (n, k) = (weight.rows().size(Counts::default()), weight.columns());
    let form = Form { op, n: n as u32, k: k as u32, rows: Rows::of(lowering.shape(node.result))? };
    let row_bytes = stored.bytes(k) as u64;
    for slice in slices(lowering.range(node.operands[3]), n, row_bytes, lowering.capabilities)? {
        if on_matrix_cores {
            form.columns(lowering, node, slice, Rounded::Yes)?;
            form.on_matrix_cores(lowering, node, slice)?;
        } else if folded {
            form.columns(lowering, node, slice, Rounded::No)?;
            form.folded(lowering, node, slice)?;
        } else {
            form.normed(lowering, node, slice)?;
        }
    }
    Ok(())
}

/// Places of the op's scratch memory.
const MOMENTS: usize = 0;
const COLUMNS: usize = 1;

fn activation(op: &LayerNormLinear) -> u32 {
    op.activation.unwrap_or(ActivationKind::Identity) as u32
}

/// What the products of all slices have alike.
struct Form<'a> {
    op: &'a LayerNormLinear,
    n: u32,
    k: u32,
    rows: Rows,
}

impl Form<'_> {
    /// Of the whole weight, which a device with matrix cores can bind at once.
    fn on_matrix_cores(&self, lowering: &mut Lowering<'_>, node: &Node, weight: Slice) -> Result<()> {
        let product = Product::of(lowering, node, 3, 1)?;
        let variant = lowering.select(&layer_norm_linear_matrix::KERNEL, node)?;
        let linear_matrix::Tile { m: tile_m, n: tile_n, k: tile_k, subgroups } = product.tile;
        let activation = activation(self.op);
        let constants = layer_norm_linear_matrix::Constants { activation, tile_m, tile_n, tile_k, subgroups };
        let bindings = layer_norm_linear_matrix::Bindings {
            counts: Range::whole(Resource::Counts),
            x: lowering.range(node.operands[0]),
            moments: lowering.scratch(node, MOMENTS)?,
            columns: lowering.scratch(node, COLUMNS)?,
            weight: weight.range,
            y: lowering.range(node.result),
        };
        lowering.push(product.dispatch(node, variant, constants.values(variant), &bindings.into_array()))
    }

    fn normed(&self, lowering: &mut Lowering<'_>, node: &Node, slice: Slice) -> Result<()> {
        let [x, norm_weight, norm_bias] = [0, 1, 2].map(|place| lowering.range(node.operands[place]));
        let bindings = layer_norm_linear::Bindings {
            counts: Range::whole(Resource::Counts),
            x,
            moments: lowering.scratch(node, MOMENTS)?,
            norm_weight,
            norm_bias,
            weight: slice.range,
            // Without bias, something that is read anyway stands in its place.
            bias: if self.op.bias { lowering.range(node.operands[4]) } else { norm_bias },
            y: lowering.range(node.result),
        };
        let (vector, vector_y) = (self.k.is_multiple_of(4), self.n.is_multiple_of(4));
        let (bias, activation) = (self.op.bias, activation(self.op));
        // All builds have one interface and one order of sums; a user's shader that of the tiled one.
        let replaced = lowering.replaced(&layer_norm_linear::KERNEL, node).is_some();
        let (variant, constants, tile) = if shuffles(lowering.capabilities) && !replaced {
            let variant = lowering.select(&layer_norm_linear_shuffle::KERNEL, node)?;
            let (rows, columns) = self.shuffled(variant);
            let constants = layer_norm_linear_shuffle::Constants { rows, columns, vector, bias, activation, vector_y };
            (variant, constants.values(variant), (rows, SHUFFLE_INVOCATIONS * columns))
        } else {
            let variant = lowering.select(&layer_norm_linear::KERNEL, node)?;
            let linear::Tile { m, n, k, whole } = linear::Tile::choose(self.n, self.k, lowering.capabilities);
            let (tile_m, tile_n, tile_k) = (m, n, k);
            let constants =
                layer_norm_linear::Constants { tile_m, tile_n, tile_k, whole, vector, bias, activation, vector_y };
            (variant, constants.values(variant), (m, n))
        };
        self.push(lowering, node, slice, Build { variant, constants, tile, bindings: bindings.into_array().to_vec() })
    }

    fn folded(&self, lowering: &mut Lowering<'_>, node: &Node, slice: Slice) -> Result<()> {
        let bindings = layer_norm_linear_folded::Bindings {
            counts: Range::whole(Resource::Counts),
            x: lowering.range(node.operands[0]),
            moments: lowering.scratch(node, MOMENTS)?,
            norm_weight: lowering.range(node.operands[1]),
            columns: lowering.scratch(node, COLUMNS)?,
            weight: slice.range,
            y: lowering.range(node.result),
        };
        let activation = activation(self.op);
        let (variant, constants, tile) = if shuffles(lowering.capabilities) {
            let variant = lowering.select(&layer_norm_linear_folded_shuffle::KERNEL, node)?;
            let (rows, columns) = self.shuffled(variant);
            let constants = layer_norm_linear_folded_shuffle::Constants { rows, columns, activation };
            (variant, constants.values(variant), (rows, SHUFFLE_INVOCATIONS * columns))
        } else {
            let variant = lowering.select(&layer_norm_linear_folded::KERNEL, node)?;
            let linear::Tile { m, n, k, whole } = linear::Tile::choose(self.n, self.k, lowering.capabilities);
            let (tile_m, tile_n, tile_k) = (m, n, k);
            let constants = layer_norm_linear_folded::Constants { tile_m, tile_n, tile_k, whole, activation };
            (variant, constants.values(variant), (m, n))
        };
        self.push(lowering, node, slice, Build { variant, constants, tile, bindings: bindings.into_array().to_vec() })
    }

    /// What a slice's columns need of the norm that is folded into them.
    fn columns(&self, lowering: &mut Lowering<'_>, node: &Node, slice: Slice, rounded: Rounded) -> Result<()> {
        let form = Held::of(self.k);
        let variant = lowering.select(&layer_norm_columns::KERNEL, node)?;
        let norm_bias = lowering.range(node.operands[2]);
        let bias = self.op.bias;
        let bindings = layer_norm_columns::Bindings {
            norm_weight: lowering.range(node.operands[1]),
            norm_bias,
            weight: slice.range,
            bias: if bias { lowering.range(node.operands[4]) } else { norm_bias },
            y: lowering.scratch(node, COLUMNS)?,
        };
        let push = layer_norm_columns::Push { rows: slice.rows, first: slice.first, n: self.n, k: self.k };
        let Held { lanes, quads, held, .. } = form;
        let rounded = rounded == Rounded::Yes;
        lowering.push(Dispatch {
            label: format!("{} columns", node.name),
            variant,
            constants: layer_norm_columns::Constants { lanes, quads, held, bias, rounded }.values(variant),
            bindings: bindings.into_array().to_vec(),
            push: bytemuck::bytes_of(&push).to_vec(),
            grid: form.grid(Rows { count: Dim::Fixed(slice.rows as usize), columns: self.k }),
        })
    }

    /// Rows and columns of an invocation.
    fn shuffled(&self, variant: &Variant) -> (u32, u32) {
        (16, if self.n <= 64 && !variant.stored.is_narrow() { 1 } else { 4 })
    }

    fn push(&self, lowering: &mut Lowering<'_>, node: &Node, slice: Slice, build: Build) -> Result<()> {
        let push = layer_norm_linear::Push {
            rows_of: self.rows.rows_of(),
            rows: self.rows.fixed(),
            n: slice.rows,
            k: self.k,
            column: slice.first,
            y_columns: self.n,
        };
        let (rows, columns) = build.tile;
        lowering.push(Dispatch {
            label: node.name.clone(),
            variant: build.variant,
            constants: build.constants,
            bindings: build.bindings,
            push: bytemuck::bytes_of(&push).to_vec(),
            grid: [Extent::Fixed(slice.rows.div_ceil(columns)), self.rows.tiles(rows), Extent::Fixed(1)],
        })
    }
}

/// A product's shader with what it is made from and binds, and the rows and columns that a workgroup has.
struct Build {
    variant: &'static Variant,
    constants: Vec<u32>,
    tile: (u32, u32),
    bindings: Vec<Range>,
}

/// Mean of each row, and 1 / sqrt(var + eps).
fn moments(lowering: &mut Lowering<'_>, node: &Node, op: &LayerNormLinear) -> Result<()> {
    let rows = Rows::of(lowering.shape(node.operands[0]))?;
    let form = Held::of(rows.columns);
    let variant = lowering.select(&layer_norm_moments::KERNEL, node)?;
    let bindings = layer_norm_moments::Bindings {
        counts: Range::whole(Resource::Counts),
        x: lowering.range(node.operands[0]),
        y: lowering.scratch(node, MOMENTS)?,
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

/// Whether the product rounds what the norm's weight and the matrix give together, as matrix cores want it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rounded {
    No,
    Yes,
}
