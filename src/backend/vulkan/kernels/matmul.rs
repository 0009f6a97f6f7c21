//! Dispatches of `matmul`, and of `attention_scores`, which is the same product with other strides. In 16 bits they run on
//! matrix cores alone.

use super::builds::{Fit, How, Row, choose};
use super::linear::unit_of;
use super::reduce::sum_of_parts;
use crate::Result;
use crate::backend::vulkan::generated::matmul::{Constants, KERNEL, Push};
use crate::backend::vulkan::generated::{Tile, matmul_matrix, matmul_split};
use crate::backend::vulkan::kernel::{Extent, Variant};
use crate::backend::vulkan::lowering::{Given, Lowering};
use crate::dtype::DType;
use crate::ops::{AttentionScores, Dim, Matmul, Strided};

/// Fewer tiles of 128 x 128 than this leave a large device idle: then tiles are smaller. The result is the same bit for
/// bit.
const FEW_TILES: usize = 256;

/// How a shader loads a tile; the values of `A_LOAD` and `B_LOAD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Along the terms of a sum.
    Terms = 0,
    /// The same, four at a time, in 16 bits eight.
    Quads = 1,
    /// Along rows of the matrix.
    Rows = 2,
}

impl Load {
    /// For a matrix with these strides (row, term, outer batch, inner batch).
    fn of(strides: [usize; 4], depth: usize) -> Load {
        let [row, term, outer, inner] = strides;
        match term {
            1 if [row, outer, inner, depth].iter().all(|step| step.is_multiple_of(4)) => Load::Quads,
            1 => Load::Terms,
            _ => Load::Rows,
        }
    }

    /// The same for 16 bits, eight at a time along terms or along so many rows, with the unit at whose multiples neighbours
    /// start; `None` for an odd number of terms side by side.
    fn of_eight(strides: [usize; 4], rows: usize, depth: usize) -> Option<(Load, u32)> {
        let [row, term, outer, inner] = strides;
        match (unit_of(&[depth, row, outer, inner]), term, row) {
            (unit @ 2.., 1, _) => Some((Load::Quads, unit)),
            (_, _, 1) => Some((Load::Rows, unit_of(&[rows, term, outer, inner]))),
            _ => None,
        }
    }
}

/// `matmul`: one dispatch, or the parts of long sums and their sum.
pub fn matmul(to: &mut Lowering<'_>, op: &Matmul) -> Result<()> {
    let product = op.strided([to.shape(0), to.shape(1)])?;
    let parts = op.parts(&product, to.result().dtype);
    if parts == 1 || to.replaced(&KERNEL).is_some() {
        return products(to, &product, "", &[]);
    }
    let sums = to.scratch("sums")?;
    let depth = product.depth / parts;
    let apart = |[row, term, ..]: [usize; 4]| [row, term, depth * term, 0];
    let each = Strided { depth, outer: parts, a: apart(product.a), b: apart(product.b), ..product };
    products(to, &each, "parts", &[("y", sums)])?;
    sum_of_parts(to, sums, parts, product.rows * product.columns)
}

/// `attention_scores`
pub fn attention_scores(to: &mut Lowering<'_>, op: &AttentionScores) -> Result<()> {
    let product = op.strided(&[to.shape(0), to.shape(1)])?;
    products(to, &product, "", &[])
}

/// Workgroups along an axis of so many results, in tiles; further tiles are run by the same ones, after their own.
pub(super) fn tiles(size: usize, tile: u32) -> Extent {
    Extent::Fixed((size as u32).div_ceil(tile).min(Extent::MOST))
}

/// Adds a dispatch for all products of a node, or of a part of it.
fn products(to: &mut Lowering<'_>, product: &Strided, part: &str, given: &[Given]) -> Result<()> {
    let (m, n) = (product.rows as u32, product.columns as u32);
    // A workgroup runs tiles beyond the grid after its own; a user's shader does so with batches alone.
    let most = if to.replaced(&KERNEL).is_some() { u32::MAX } else { Extent::MOST };
    let [across, down] = [n, m].map(|size| move |tile: u32| size.div_ceil(tile).min(most));
    let batches = (product.batches() as u32).min(to.capabilities.workgroup_count[2]);
    let grid = |tile_m: u32, tile_n: u32| [across(tile_n), down(tile_m), batches].map(Extent::Fixed);
    let chosen = choose(to, &KERNEL, [product.columns, product.depth], &BUILDS, product)?;
    let wide = to.result().dtype == DType::F32 || !given.is_empty();
    let y_unit = if chosen.tile.y_unit == 4 || !wide { chosen.tile.y_unit } else { 1 };
    let tile = Tile { wide, y_unit, ..chosen.tile };
    let build = (chosen.make)(to, push(product), tile)?;
    to.add(build, part, given, grid(tile.tile_m, tile.tile_n))
}

type Of = Row<Strided, Push, Tile>;

static BUILDS: [Of; 3] = [
    Of::of::<matmul_matrix::Constants>(&KERNEL, How::Matrix, on_matrix_cores).at_any_width(),
    Of::of::<matmul_split::Constants>(&KERNEL, How::Split, split),
    Of::of::<Constants>(&KERNEL, How::Plain, plain),
];

/// In 16 bits.
fn on_matrix_cores(to: &Lowering<'_>, product: &Strided, variant: &'static Variant) -> Fit<Tile> {
    let loads = [(product.a, product.rows), (product.b, product.columns)];
    let [Some((a_load, a_unit)), Some((b_load, b_unit))] =
        loads.map(|(strides, rows)| Load::of_eight(strides, rows, product.depth))
    else {
        return Err("the number of terms is odd");
    };
    let rows = product.rows * product.batches();
    let cores = Tile::of_cores(variant, to.capabilities);
    let (columns, depth) = (product.columns as u32, product.depth as u32);
    let tile = cores.of_matrices(rows, columns, depth, to.capabilities).dealt(1)?;
    let y_unit = unit_of(&[product.columns]).min(4);
    Ok(Tile { a_load: a_load as u32, b_load: b_load as u32, a_unit, b_unit, y_unit, ..tile })
}

/// In float32 on matrix cores.
fn split(to: &Lowering<'_>, product: &Strided, variant: &'static Variant) -> Fit<Tile> {
    to.may_split()?;
    let (rows, n, k) = (product.rows * product.batches(), product.columns as u32, product.depth as u32);
    let Tile { a_load, b_load, .. } = plain(to, product, variant)?;
    let cores = Tile::of_lanes(variant, to.capabilities.lanes_of_splits());
    let tile = cores.of_split(Dim::Fixed(rows), n, 1, k, to.capabilities.shared_memory)?;
    Ok(Tile { a_load, b_load, ..tile })
}

fn plain(to: &Lowering<'_>, product: &Strided, _: &'static Variant) -> Fit<Tile> {
    let [a_load, b_load] = [product.a, product.b].map(|strides| Load::of(strides, product.depth) as u32);
    Ok(Tile { a_load, b_load, ..tile(product, to.capabilities.shared_memory) })
}

/// The push block of a product.
pub(super) fn push(product: &Strided) -> Push {
    let [a_row, a_k, a_outer, a_inner] = product.a.map(|step| step as u32);
    let [b_column, b_k, b_outer, b_inner] = product.b.map(|step| step as u32);
    Push {
        m: product.rows as u32,
        n: product.columns as u32,
        k: product.depth as u32,
        batches: product.batches() as u32,
        inner: product.inner as u32,
        group: product.group as u32,
        a_row,
        a_k,
        a_outer,
        a_inner,
        b_column,
        b_k,
        b_outer,
        b_inner,
        y_row: product.columns as u32,
        y_outer: (product.inner * product.rows * product.columns) as u32,
        y_inner: (product.rows * product.columns) as u32,
        scale: product.scale,
    }
}

/// The tile that fits shared memory.
fn tile(product: &Strided, shared_memory: u32) -> Tile {
    let best = best_tile(product);
    if best.shared_bytes() <= shared_memory { best } else { sized(64, 64, 16) }
}

fn sized(tile_m: u32, tile_n: u32, tile_k: u32) -> Tile {
    Tile { tile_m, tile_n, tile_k, ..Tile::default() }
}

/// The tile where there is room for any.
fn best_tile(product: &Strided) -> Tile {
    let (m, n) = (product.rows, product.columns);
    if m <= 16 {
        return sized(16, 64, 64);
    }
    if n <= 16 {
        return sized(64, 16, 64);
    }
    let large = m.div_ceil(128) * n.div_ceil(128) * product.batches();
    if large < FEW_TILES {
        return sized(64, 64, 16);
    }
    sized(if m <= 64 { 64 } else { 128 }, if n <= 64 { 64 } else { 128 }, 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::vulkan::Capabilities;
    use crate::ops::Shape;

    fn product(op: &Matmul, a: &[usize], b: &[usize]) -> Strided {
        op.strided([&Shape::fixed(a), &Shape::fixed(b)]).unwrap()
    }

    #[test]
    fn tiles_fit_shared_memory_and_give_every_invocation_as_much() {
        let plain = Matmul::default();
        for (m, n) in [(1, 1), (16, 4096), (17, 16), (64, 65), (4096, 64), (4096, 4096), (65, 4096)] {
            let product = product(&plain, &[m, 64], &[64, n]);
            assert_eq!(tile(&product, Capabilities::floor().shared_memory), best_tile(&product));
            for memory in [16 << 10, Capabilities::floor().shared_memory] {
                let tile @ Tile { tile_m, tile_n, tile_k, .. } = tile(&product, memory);
                assert!(tile.shared_bytes() <= memory, "{m} x {n}");
                assert_eq!((tile_m * tile_k % 1024, tile_n * tile_k % 1024), (0, 0), "{m} x {n}");
            }
        }
    }

    #[test]
    fn loads_follow_the_layout() {
        let loads = |op: &Matmul, a: &[usize], b: &[usize]| {
            let product = product(op, a, b);
            (Load::of(product.a, product.depth), Load::of(product.b, product.depth))
        };
        assert_eq!(loads(&Matmul::default(), &[5, 8], &[8, 7]), (Load::Quads, Load::Rows));
        assert_eq!(loads(&Matmul::default(), &[5, 9], &[9, 7]), (Load::Terms, Load::Rows));
        let both = Matmul { transpose_a: true, transpose_b: true, ..Matmul::default() };
        assert_eq!(loads(&both, &[2, 8, 5], &[2, 7, 8]), (Load::Rows, Load::Quads));
        // The second matrix of a begins at element 15.
        assert_eq!(loads(&Matmul::default(), &[2, 5, 3], &[2, 3, 1]), (Load::Terms, Load::Terms));
    }

    #[test]
    fn loads_in_16_bits_are_of_units_that_divide_all_starts() {
        let loads = |op: &Matmul, a: &[usize], b: &[usize]| {
            let product = product(op, a, b);
            [(product.a, product.rows), (product.b, product.columns)]
                .map(|(strides, rows)| Load::of_eight(strides, rows, product.depth))
        };
        let (plain, second) = (Matmul::default(), Matmul { transpose_b: true, ..Matmul::default() });
        assert_eq!(loads(&plain, &[5, 24], &[24, 7]), [Some((Load::Quads, 8)), Some((Load::Rows, 1))]);
        assert_eq!(loads(&second, &[2, 5, 12], &[2, 7, 12]), [Some((Load::Quads, 4)); 2]);
        assert_eq!(loads(&plain, &[5, 18], &[18, 20]), [Some((Load::Quads, 2)), Some((Load::Rows, 4))]);
        assert_eq!(loads(&plain, &[5, 9], &[9, 8]), [None, Some((Load::Rows, 8))]);
    }
}
