//! Dispatches of row quantisation, and of products of quantised rows.

use super::elementwise::{Elements, walk};
use super::linear::{GROUP, Tile, fits_integers};
use super::rows::{Rows, along, spread};
use crate::Result;
use crate::backend::vulkan::generated::{
    dequantize_rows, integer_linear, integer_linear_matrix, quantize_rows, quantize_rows_scales,
};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::ops::{DequantizeRows, IntegerLinear, QuantizeRows, Shape};

/// How many of `places` each workgroup processes, and the grid.
fn share(to: &Lowering<'_>, places: usize) -> Result<(u32, [Extent; 3])> {
    let walk = Elements::of(&Shape::fixed(&[places]), to.capabilities)?;
    Ok((walk.rows_per_group, along(walk.groups)))
}

/// Rows and columns of an operand of known size.
fn rows(to: &Lowering<'_>, place: usize) -> Result<(usize, usize)> {
    let unknown = || to.unsupported(format!("rows of {} are counted by the batch", to.shape(place)));
    to.shape(place).as_rows().ok_or_else(unknown)
}

/// `quantize_rows`: first the scales, then the scaled rows.
pub fn quantize_rows(to: &mut Lowering<'_>, _: &QuantizeRows) -> Result<()> {
    let (count, columns) = rows(to, 0)?;
    let (elements, words) = ((count * columns) as u32, (count * columns).div_ceil(4));
    let push = quantize_rows_scales::Push { rows: count as u32, columns: columns as u32 };
    let build = Build::new(to.select(&quantize_rows_scales::KERNEL)?, push, quantize_rows_scales::Constants {});
    to.add(build, "scales", &[], spread(count as u64))?;
    let (words_per_group, grid) = share(to, words)?;
    let push = quantize_rows::Push { elements, columns: columns as u32, words: words as u32, words_per_group };
    to.dispatch(push, quantize_rows::Constants {}, grid)
}

/// `integer_linear`: on matrix cores where they multiply 8-bit integers; the result is exact either way.
pub fn integer_linear(to: &mut Lowering<'_>, _: &IntegerLinear) -> Result<()> {
    let ((m, depth), (n, _)) = (rows(to, 0)?, rows(to, 1)?);
    if fits_integers(to, 1) {
        let of = Rows::of(to.shape(0))?;
        let tile = Tile::of_integers(of.count, n as u32, depth as u32, to.capabilities);
        let Tile { tile_m, tile_n, tile_k, whole, subgroups, .. } = tile;
        let push = integer_linear_matrix::Push { rows_of: of.rows_of, rows: of.rows, n: n as u32, k: depth as u32 };
        let constants = integer_linear_matrix::Constants { tile_m, tile_n, tile_k, whole, subgroups };
        let across = Extent::Fixed(GROUP * (n as u32).div_ceil(tile_n));
        return to.dispatch(push, constants, [across, of.tiles(GROUP * tile_m), Extent::ONE]);
    }
    let (places_per_group, grid) = share(to, m * n)?;
    let push =
        integer_linear::Push { places: (m * n) as u32, columns: n as u32, depth: depth as u32, places_per_group };
    to.dispatch(push, integer_linear::Constants { whole: depth.is_multiple_of(4) }, grid)
}

/// `dequantize_rows`
pub fn dequantize_rows(to: &mut Lowering<'_>, _: &DequantizeRows) -> Result<()> {
    let width = to.shape(0).columns() as u32;
    walk(to, to.shape(0), dequantize_rows::Constants {}, |walk| dequantize_rows::Push { width, ..walk })
}
