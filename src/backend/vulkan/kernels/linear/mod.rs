//! Dispatches of `linear`, of `expert_linear`, and of the fused products `gated_linear` and `layer_norm_linear`: one, or
//! one per slice of the weight where it is too large to bind. The build is chosen here.

mod experts;
mod norm;
mod tile;

use super::builds::How::{self, Matrix, Plain, Shuffle, Split};
use super::builds::{Chosen, Row, choose};
use super::rows::{Rows, Slice, slices};
use crate::Result;
use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::generated::{
    Product, Tile, expert_linear as by_expert, expert_linear_matrix, expert_linear_shuffle, expert_linear_split,
    gated_linear, gated_linear_matrix, gated_linear_split, layer_norm_linear as normed,
    layer_norm_linear_folded as folded, layer_norm_linear_folded_shuffle, layer_norm_linear_matrix,
    layer_norm_linear_shuffle, layer_norm_linear_split, linear, linear_matrix, linear_shuffle, linear_split,
};
use crate::backend::vulkan::kernel::{Extent, Kernel};
use crate::backend::vulkan::lowering::{Given, Lowering};
use crate::ops::{ActivationKind, Dim, GatedLinear, Linear, Residual};
pub use experts::{expert_linear, experts_push};
pub use norm::layer_norm_linear;
pub use tile::{binds, unit_of};

/// Columns of a shared-memory tile whose halves are the gates and the values they gate.
const GATED_TILE: u32 = 128;
/// Row tiles of a group on matrix cores.
pub const GROUP: u32 = 8;

/// What a build of `x W^T` is chosen by.
#[derive(Clone, Copy)]
struct Site {
    /// Rows of x.
    rows: Dim,
    /// Columns of the result.
    n: u32,
    /// Terms of a sum.
    k: u32,
    /// The place of the weight.
    weight: usize,
    /// The number of weights whose columns are side by side in a tile.
    weights: u32,
}

type Of = Row<Site, Product, Tile>;

/// Every build of every form, the first that fits is chosen: with bias, activation and residual; with a second product,
/// gated by the first; with a preceding norm of the rows; with that norm folded into the product, in 16 bits; with a matrix
/// per expert.
static BUILDS: [Of; 17] = [
    Of::of::<linear_matrix::Constants>(&linear::KERNEL, Matrix, Tile::matrix).at_any_width(),
    Of::of::<linear_split::Constants>(&linear::KERNEL, Split, Tile::split),
    Of::of::<linear_shuffle::Constants>(&linear::KERNEL, Shuffle, Tile::shuffled),
    Of::of::<linear::Constants>(&linear::KERNEL, Plain, Tile::plain),
    Of::of::<gated_linear_matrix::Constants>(&gated_linear::KERNEL, Matrix, Tile::matrix).at_any_width(),
    Of::of::<gated_linear_split::Constants>(&gated_linear::KERNEL, Split, Tile::split),
    Of::of::<gated_linear::Constants>(&gated_linear::KERNEL, Plain, Tile::plain),
    Of::of::<layer_norm_linear_split::Constants>(&normed::KERNEL, Split, Tile::split),
    Of::of::<layer_norm_linear_shuffle::Constants>(&normed::KERNEL, Shuffle, Tile::shuffled),
    Of::of::<normed::Constants>(&normed::KERNEL, Plain, Tile::plain),
    Of::of::<layer_norm_linear_matrix::Constants>(&folded::KERNEL, Matrix, Tile::matrix).at_any_width(),
    Of::of::<layer_norm_linear_folded_shuffle::Constants>(&folded::KERNEL, Shuffle, Tile::shuffled),
    Of::of::<folded::Constants>(&folded::KERNEL, Plain, Tile::plain),
    Of::of::<expert_linear_matrix::Constants>(&by_expert::KERNEL, Matrix, Tile::matrix).at_any_width(),
    Of::of::<expert_linear_split::Constants>(&by_expert::KERNEL, Split, Tile::split),
    Of::of::<expert_linear_shuffle::Constants>(&by_expert::KERNEL, Shuffle, Tile::shuffled),
    Of::of::<by_expert::Constants>(&by_expert::KERNEL, Plain, Tile::plain),
];

/// A node's product, and the build that runs it.
struct Multiplied {
    build: Chosen<Product, Tile>,
    rows: Rows,
    site: Site,
}

impl Multiplied {
    /// Chooses for operand 0 and the weight at a position, the first of so many; `epilogue` is applied to the results.
    fn new(
        to: &mut Lowering<'_>,
        of: &'static Kernel,
        rows: Rows,
        [weight, weights]: [usize; 2],
        epilogue: Tile,
    ) -> Result<Self> {
        let (n, k) = (to.result().shape.columns(), to.shape(weight).columns());
        let site = Site { rows: rows.count, n: n as u32, k: k as u32, weight, weights: weights as u32 };
        let mut build = choose(to, of, [n, k], &BUILDS, &site)?;
        let Tile { bias, residual, activation, .. } = epilogue;
        let (vector, vector_y) = (k.is_multiple_of(4), n.is_multiple_of(4));
        // In float32 of operands in 16 bits.
        let wide = to.stored_at_any_width()?.is_narrow() && !to.result().dtype.is_narrow();
        build.tile = Tile { bias, residual, activation, vector, vector_y, wide, ..build.tile };
        Ok(Multiplied { build, rows, site })
    }

    /// The weight at a position, in slices of rows.
    fn slices(&self, to: &Lowering<'_>, weight: usize) -> Result<Vec<Slice>> {
        let row_bytes = to.dtype(weight).bytes(self.site.k as usize) as u64;
        // As many as the grid has columns for.
        let [_, width, group] = self.workgroup();
        let most = u64::from(Extent::MOST / group * (width / self.site.weights)) * row_bytes;
        let range = to.capabilities.storage_buffer_range.min(most);
        let limited = Capabilities { storage_buffer_range: range, ..to.capabilities.clone() };
        slices(to.operand(weight), self.site.n as usize, row_bytes, &limited)
    }

    /// Rows and columns of a workgroup, and the row tiles of a group along y: on matrix cores, those of a group iterate over
    /// all columns together.
    fn workgroup(&self) -> [u32; 3] {
        let Tile { rows, columns, tile_m, tile_n, .. } = self.build.tile;
        match self.build.how {
            Shuffle => [rows, tile::SHUFFLE_INVOCATIONS * columns, 1],
            Matrix | Split => [tile_m, tile_n, GROUP],
            _ => [tile_m, tile_n, 1],
        }
    }

    /// Adds the dispatch of a slice.
    fn dispatch(&self, to: &mut Lowering<'_>, slice: Slice, given: &[Given]) -> Result<()> {
        let ([m, n, group], Site { weights, k, .. }) = (self.workgroup(), self.site);
        let across = slice.rows.div_ceil(n / weights);
        let product = Product {
            rows_of: self.rows.rows_of,
            rows: self.rows.rows,
            // Gates and gated values are side by side, in whole tiles.
            n: if weights > 1 && self.build.how != Matrix { across * n } else { slice.rows },
            k,
            column: slice.first,
            y_columns: self.site.n,
            width: slice.rows,
            ..Product::default()
        };
        let build = (self.build.make)(to, product, self.build.tile)?;
        let grid = [Extent::Fixed(group * across), self.rows.tiles(group * m), Extent::Continued { axis: 1 }];
        to.add(build, "", given, grid)
    }
}

pub(super) fn number(activation: Option<ActivationKind>) -> u32 {
    activation.unwrap_or(ActivationKind::Identity) as u32
}

/// `linear`
pub fn linear(to: &mut Lowering<'_>, op: &Linear) -> Result<()> {
    let (residual, activation) = (op.residual == Residual::Added, number(op.activation));
    let epilogue = Tile { bias: op.bias, residual, activation, ..Tile::default() };
    let rows = Rows::of(&to.result().shape)?;
    let product = Multiplied::new(to, &linear::KERNEL, rows, [1, 1], epilogue)?;
    to.check_narrow(to.dtype(1), product.build.how == Matrix)?;
    let slices = product.slices(to, 1)?;
    slices.into_iter().try_for_each(|slice| product.dispatch(to, slice, &[("weight", slice.range)]))
}

/// `gated_linear`
pub fn gated_linear(to: &mut Lowering<'_>, op: &GatedLinear) -> Result<()> {
    let epilogue = Tile { activation: op.kind as u32, ..Tile::default() };
    let rows = Rows::of(&to.result().shape)?;
    let product = Multiplied::new(to, &gated_linear::KERNEL, rows, [1, 2], epilogue)?;
    let mut pairs = product.slices(to, 1)?.into_iter().zip(product.slices(to, 2)?);
    pairs.try_for_each(|(gate, up)| product.dispatch(to, gate, &[("weight", gate.range), ("up", up.range)]))
}
