//! Dispatches of row quantisation, and of products of quantised rows.

use super::elementwise::{Elements, walk};
use super::linear::{GROUP, Tile, fits_integers};
use super::rows::{Rows, along, spread};
use crate::Result;
use crate::backend::vulkan::generated::{
    dequantize_rows, integer_linear, integer_linear_matrix, quantize_rows, quantize_rows_affine, quantize_rows_scales,
    quantize_rows_scales_affine, quantized_linear, quantized_linear_scale,
};
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::{Build, Lowering};
use crate::ops::{
    DequantizeRows, IntegerLinear, Levels, QuantizeKind, QuantizeRows, QuantizedLinear, Residual, Scope, Shape,
};

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
pub fn quantize_rows(to: &mut Lowering<'_>, op: &QuantizeRows) -> Result<()> {
    let ((count, columns), affine) = (rows(to, 0)?, op.kind == QuantizeKind::Affine);
    // A tensor with one scale is one row to the first dispatch.
    let (lines, line) = if op.scope == Scope::Tensor { (1, count * columns) } else { (count, columns) };
    let groups = if let Scope::Group(group) = op.scope { line.div_ceil(group) } else { 1 };
    let push = quantize_rows_scales::Push {
        scales: (lines * groups) as u32,
        columns: line as u32,
        group: if let Scope::Group(group) = op.scope { group as u32 } else { line as u32 },
        groups: groups as u32,
    };
    let build = if affine {
        let constants = quantize_rows_scales_affine::Constants {};
        Build::new(to.select(&quantize_rows_scales_affine::KERNEL)?, push, constants)
    } else {
        let constants = quantize_rows_scales::Constants { mean: op.kind != QuantizeKind::Absmax };
        Build::new(to.select(&quantize_rows_scales::KERNEL)?, push, constants)
    };
    to.add(build, "scales", &[], spread((lines * groups) as u64))?;

    let (levels, places) = (op.kind.levels(), op.scope.places(columns));
    let bytes = count * levels.bytes(columns);
    let (words_per_group, grid) = share(to, bytes.div_ceil(4))?;
    let seed = op.seed.unwrap_or_default();
    let push = quantize_rows::Push {
        bytes: bytes as u32,
        row_bytes: levels.bytes(columns) as u32,
        columns: columns as u32,
        words: bytes.div_ceil(4) as u32,
        words_per_group,
        group: places.group as u32,
        per_row: places.per_row as u32,
        seed_0: seed as u32,
        seed_1: (seed >> 32) as u32,
        offset_0: op.offset as u32,
        offset_1: (op.offset >> 32) as u32,
    };
    let stochastic = op.seed.is_some();
    if affine {
        return to.dispatch(push, quantize_rows_affine::Constants { stochastic }, grid);
    }
    to.dispatch(push, quantize_rows::Constants { levels: levels as u32, stochastic }, grid)
}

/// The sums of integers, on matrix cores where these multiply 8-bit integers; exact either way.
fn sums(to: &mut Lowering<'_>, levels: Levels, weight: usize) -> Result<()> {
    let ((m, depth), (n, row_bytes)) = (rows(to, 0)?, rows(to, weight)?);
    if levels == Levels::Int8 && fits_integers(to, weight) {
        let of = Rows::of(to.shape(0))?;
        let tile = Tile::of_integers(of.count, n as u32, depth as u32, to.capabilities);
        let Tile { tile_m, tile_n, tile_k, whole, subgroups, .. } = tile;
        let push = integer_linear_matrix::Push { rows_of: of.rows_of, rows: of.rows, n: n as u32, k: depth as u32 };
        let constants = integer_linear_matrix::Constants { tile_m, tile_n, tile_k, whole, subgroups };
        let across = Extent::Fixed(GROUP * (n as u32).div_ceil(tile_n));
        return to.dispatch(push, constants, [across, of.tiles(GROUP * tile_m), Extent::ONE]);
    }
    let (places_per_group, grid) = share(to, m * n)?;
    let push = integer_linear::Push {
        places: (m * n) as u32,
        columns: n as u32,
        depth: depth as u32,
        row_bytes: row_bytes as u32,
        places_per_group,
    };
    let constants = integer_linear::Constants { whole: depth.is_multiple_of(4), levels: levels as u32 };
    to.dispatch(push, constants, grid)
}

/// `integer_linear`
pub fn integer_linear(to: &mut Lowering<'_>, op: &IntegerLinear) -> Result<()> {
    sums(to, op.levels, 1)
}

/// `quantized_linear`: the sums, of groups already by the weight's scales; then the rest in place.
pub fn quantized_linear(to: &mut Lowering<'_>, op: &QuantizedLinear) -> Result<()> {
    let places = op.scope.places(to.shape(0).columns());
    if let Scope::Group(group) = op.scope {
        let ((m, depth), (n, row_bytes)) = (rows(to, 0)?, rows(to, 2)?);
        let (places_per_group, grid) = share(to, m * n)?;
        let push = quantized_linear::Push {
            places: (m * n) as u32,
            columns: n as u32,
            depth: depth as u32,
            row_bytes: row_bytes as u32,
            places_per_group,
            group: group as u32,
            per_row: places.per_row as u32,
        };
        let whole = depth.is_multiple_of(4) && group.is_multiple_of(4);
        to.dispatch(push, quantized_linear::Constants { whole, levels: op.levels as u32 }, grid)?;
    } else {
        sums(to, op.levels, 2)?;
    }
    let (shape, width) = (to.result().shape.clone(), to.result().shape.columns() as u32);
    let constants = quantized_linear_scale::Constants {
        groups: matches!(op.scope, Scope::Group(_)),
        activation: op.activation.map_or(0, |kind| kind as u32),
        bias: op.bias,
        residual: op.residual == Residual::Added,
    };
    let per_row = places.per_row as u32;
    walk(to, &shape, constants, |walk| quantized_linear_scale::Push { width, per_row, ..walk })
}

/// `dequantize_rows`
pub fn dequantize_rows(to: &mut Lowering<'_>, op: &DequantizeRows) -> Result<()> {
    let (width, row_bytes) = (to.result().shape.columns(), to.shape(0).columns() as u32);
    let places = op.scope.places(width);
    let constants = dequantize_rows::Constants { levels: op.levels as u32, affine: op.zero };
    walk(to, &to.result().shape, constants, |walk| dequantize_rows::Push {
        width: width as u32,
        row_bytes,
        group: places.group as u32,
        per_row: places.per_row as u32,
        ..walk
    })
}
