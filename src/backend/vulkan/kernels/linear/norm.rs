//! Dispatches of `layer_norm_linear`: the rows' moments, then the product. In 16 bits the norm is folded into the
//! product, and the column sums this requires are computed between the two.

use super::{Multiplied, Tile, folded, number};
use crate::Result;
use crate::backend::vulkan::generated::{layer_norm_columns, layer_norm_linear, layer_norm_moments};
use crate::backend::vulkan::kernels::builds::How;
use crate::backend::vulkan::kernels::rows::{Held, Rows, Slice};
use crate::backend::vulkan::lowering::{Build, Given, Lowering};
use crate::ops::{Dim, LayerNormLinear};

/// Adds the node's dispatches.
pub fn layer_norm_linear(to: &mut Lowering<'_>, op: &LayerNormLinear) -> Result<()> {
    let narrow = to.result().dtype.is_narrow() && to.replaced(&layer_norm_linear::KERNEL).is_none();
    if narrow && !to.shape(0).columns().is_multiple_of(4) {
        // The rows' moments, and the sums of columns, are of four numbers at a time.
        to.whole_quads()?;
    }
    moments(to, op)?;
    let kernel = if narrow { &folded::KERNEL } else { &layer_norm_linear::KERNEL };
    let epilogue = Tile { bias: op.bias, activation: number(op.activation), ..Tile::default() };
    let rows = Rows::of(&to.result().shape)?;
    let product = Multiplied::new(to, kernel, rows, [3, 1], epilogue)?;
    for slice in product.slices(to, 3)? {
        // Without a bias, an operand that is read anyway is bound instead.
        let bias = to.operand(if op.bias { 4 } else { 2 });
        let given = [("weight", slice.range), ("bias", bias)];
        if narrow {
            columns(to, &product, slice, &[given[0], given[1], ("y", to.scratch("columns")?)])?;
        }
        product.dispatch(to, slice, &given)?;
    }
    Ok(())
}

/// Computes the per-column terms of the norm that is folded into a slice.
fn columns(to: &mut Lowering<'_>, product: &Multiplied, slice: Slice, given: &[Given]) -> Result<()> {
    let Held { lanes, quads, held, .. } = Held::of(product.site.k);
    let (n, k) = (product.site.n, product.site.k);
    let gains = LayerNormLinear::gains(k as usize) as u32;
    let push = layer_norm_columns::Push { rows: slice.rows, first: slice.first, n, k, gains };
    // On matrix cores the product of the norm's weight and the matrix is rounded.
    let rounded = product.build.how == How::Matrix;
    let constants = layer_norm_columns::Constants { lanes, quads, held, bias: product.build.tile.bias, rounded };
    let build = Build::new(to.select_at_any_width(&layer_norm_columns::KERNEL)?, push, constants);
    let grid = Held::of(push.k).grid(Rows::new(Dim::Fixed(slice.rows as usize), push.k));
    to.add(build, "columns", given, grid)
}

/// Mean of each row, and 1 / sqrt(var + eps).
fn moments(to: &mut Lowering<'_>, op: &LayerNormLinear) -> Result<()> {
    let rows = Rows::of(to.shape(0))?;
    let form = Held::of(rows.columns);
    let push = layer_norm_moments::Push { eps: op.eps, ..rows.into() };
    let variant = to.select_at_any_width(&layer_norm_moments::KERNEL)?;
    let build = Build::new(variant, push, layer_norm_moments::Constants::from(form));
    to.add(build, "moments", &[("y", to.scratch("moments")?)], form.grid(rows))
}
