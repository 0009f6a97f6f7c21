//! Dispatches of `linear`, of `expert_linear`, and of the fused products `gated_linear` and `layer_norm_linear`: one, or
//! one per slice of the weight where it is too large to bind. The build is chosen here.

mod experts;
mod normed;
mod tile;

pub use experts::expert_linear;
pub use normed::layer_norm_linear;
pub use tile::{fits_integers, in_sixteens, splits};

use super::rows::{Rows, Slice, slices};
use crate::Result;
use crate::backend::vulkan::generated::{
    Product, Tile, expert_linear as by_expert, expert_linear_matrix, expert_linear_shuffle, expert_linear_split,
    gated_linear, gated_linear_matrix, gated_linear_split, layer_norm_linear, layer_norm_linear_folded,
    layer_norm_linear_folded_shuffle, layer_norm_linear_matrix, layer_norm_linear_shuffle, layer_norm_linear_split,
    linear, linear_matrix, linear_shuffle, linear_split,
};
use crate::backend::vulkan::kernel::{Extent, Kernel, Specialization};
use crate::backend::vulkan::lowering::{Build, Given, Lowering};
use crate::dtype::DType;
use crate::ops::{ActivationKind, Counts, GatedLinear, Linear, Residual};

/// What is fused with the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Bias, activation and residual.
    Plain,
    /// A second product, gated by the first.
    Gated,
    /// A preceding norm of the rows.
    Normed,
    /// The same in 16 bits, with the norm folded into the product.
    Folded,
    /// A matrix per expert.
    Experts,
}

/// How a workgroup multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// On matrix cores, in 16 bits.
    Matrix,
    /// On matrix cores, each float32 number as two float16 numbers.
    Split,
    /// Lanes fed by subgroup shuffles.
    Shuffle,
    /// Tiles in shared memory.
    Tiled,
}

impl How {
    /// Row tiles of a workgroup along y: on matrix cores, those of a group iterate over all columns together.
    fn group(self) -> u32 {
        if matches!(self, Matrix | Split) { GROUP } else { 1 }
    }
}

/// Columns of a shared-memory tile whose halves are the gates and the values they gate.
const GATED_TILE: u32 = 128;
/// Row tiles of a group on matrix cores.
pub const GROUP: u32 = 8;

impl Form {
    /// The number of weights whose columns are side by side in a tile.
    fn weights(self) -> u32 {
        if self == Form::Gated { 2 } else { 1 }
    }
}

use Form::{Experts, Folded, Gated, Normed, Plain};
use How::{Matrix, Shuffle, Split, Tiled};

/// Every build. The first of the form that the device can run and that supports the operands is chosen.
const BUILDS: [(Form, How, Make); 17] = [
    (Plain, Matrix, make::<linear_matrix::Constants>),
    (Plain, Split, make::<linear_split::Constants>),
    (Plain, Shuffle, make::<linear_shuffle::Constants>),
    (Plain, Tiled, make::<linear::Constants>),
    (Gated, Matrix, make::<gated_linear_matrix::Constants>),
    (Gated, Split, make::<gated_linear_split::Constants>),
    (Gated, Tiled, make::<gated_linear::Constants>),
    (Normed, Split, make::<layer_norm_linear_split::Constants>),
    (Normed, Shuffle, make::<layer_norm_linear_shuffle::Constants>),
    (Normed, Tiled, make::<layer_norm_linear::Constants>),
    (Folded, Matrix, make::<layer_norm_linear_matrix::Constants>),
    (Folded, Shuffle, make::<layer_norm_linear_folded_shuffle::Constants>),
    (Folded, Tiled, make::<layer_norm_linear_folded::Constants>),
    (Experts, Matrix, make::<expert_linear_matrix::Constants>),
    (Experts, Split, make::<expert_linear_split::Constants>),
    (Experts, Shuffle, make::<expert_linear_shuffle::Constants>),
    (Experts, Tiled, make::<by_expert::Constants>),
];

type Make = fn(&Lowering<'_>, Product, Tile) -> Result<Build>;

fn make<C>(to: &Lowering<'_>, product: Product, tile: Tile) -> Result<Build>
where
    C: Specialization<Push: From<Product>> + From<Tile>,
{
    Ok(Build::new(to.select(C::KERNEL)?, product.into(), C::from(tile)))
}

/// A node's product, and the build that runs it.
struct Chosen {
    form: Form,
    how: How,
    make: Make,
    tile: Tile,
    rows: Rows,
    n: usize,
    k: usize,
}

impl Chosen {
    /// Chooses for operand 0 and the weight at a position; `epilogue` is applied to the results. A user's shader in
    /// place of `kernel` has the interface of the tiled build.
    fn new(to: &Lowering<'_>, form: Form, kernel: &Kernel, weight: usize, epilogue: Tile) -> Result<Self> {
        let shape = &to.result().shape;
        let (rows, n) = match form {
            Experts => (Rows::of_each(shape)?, shape.columns()),
            _ => (Rows::of(shape)?, to.shape(weight).rows().size(Counts::default())),
        };
        let k = to.shape(weight).columns();
        let own = to.replaced(kernel).is_none();
        let float32 = [to.dtype(0), to.dtype(weight), to.result().dtype] == [DType::F32; 3];
        let serves = |how: How| match how {
            Matrix => own && to.dtype(weight).is_narrow() && n.is_multiple_of(8) && tile::fits_matrices(to, weight),
            Split => own && float32 && splits(to, n, k),
            Shuffle => own && tile::shuffles(to.capabilities),
            Tiled => true,
        };
        let mut builds = BUILDS.iter().filter(|(of, how, _)| *of == form && serves(*how));
        let (_, how, make) = builds.next().ok_or_else(|| to.unsupported("no build of its product serves it".into()))?;
        let tile = match how {
            Matrix => Tile::on_matrix_cores(rows.count, form.weights() * n as u32, k as u32, to.capabilities),
            Split => Tile::split(rows.count, n as u32, form.weights(), k as u32, to.capabilities),
            Shuffle => Tile::shuffled(n as u32, to.dtype(weight)),
            Tiled => Tile::shared(if form == Gated { GATED_TILE } else { n as u32 }, k as u32, to.capabilities),
        };
        let Tile { bias, residual, activation, .. } = epilogue;
        let (vector, vector_y) = (k.is_multiple_of(4), n.is_multiple_of(4));
        let tile = Tile { bias, residual, activation, vector, vector_y, ..tile };
        Ok(Chosen { form, how: *how, make: *make, tile, rows, n, k })
    }

    /// The weight at a position, in slices of rows.
    fn slices(&self, to: &Lowering<'_>, weight: usize) -> Result<Vec<Slice>> {
        slices(to.operand(weight), self.n, to.dtype(weight).bytes(self.k) as u64, to.capabilities)
    }

    /// Adds the dispatch of a slice.
    fn dispatch(&self, to: &mut Lowering<'_>, slice: Slice, given: &[Given]) -> Result<()> {
        let (m, n) = self.tile.workgroup(self.how);
        let across = slice.rows.div_ceil(n / self.form.weights());
        let product = Product {
            rows_of: self.rows.rows_of,
            rows: self.rows.rows,
            // Gates and gated values are side by side, in whole tiles.
            n: if self.form == Gated && self.how != Matrix { across * n } else { slice.rows },
            k: self.k as u32,
            column: slice.first,
            y_columns: self.n as u32,
            width: slice.rows,
            ..Product::default()
        };
        let build = (self.make)(to, product, self.tile)?;
        let group = self.how.group();
        to.add(build, "", given, [Extent::Fixed(group * across), self.rows.tiles(group * m), Extent::ONE])
    }
}

fn number(activation: Option<ActivationKind>) -> u32 {
    activation.unwrap_or(ActivationKind::Identity) as u32
}

/// `linear`
pub fn linear(to: &mut Lowering<'_>, op: &Linear) -> Result<()> {
    let (residual, activation) = (op.residual == Residual::Added, number(op.activation));
    let epilogue = Tile { bias: op.bias, residual, activation, ..Tile::default() };
    let product = Chosen::new(to, Plain, &linear::KERNEL, 1, epilogue)?;
    if product.how != Matrix {
        to.without_matrix_cores(to.dtype(1))?;
    }
    let slices = product.slices(to, 1)?;
    slices.into_iter().try_for_each(|slice| product.dispatch(to, slice, &[("weight", slice.range)]))
}

/// `gated_linear`
pub fn gated_linear(to: &mut Lowering<'_>, op: &GatedLinear) -> Result<()> {
    let epilogue = Tile { activation: op.kind as u32, ..Tile::default() };
    let product = Chosen::new(to, Gated, &gated_linear::KERNEL, 1, epilogue)?;
    let mut pairs = product.slices(to, 1)?.into_iter().zip(product.slices(to, 2)?);
    pairs.try_for_each(|(gate, up)| product.dispatch(to, gate, &[("weight", gate.range), ("up", up.range)]))
}
