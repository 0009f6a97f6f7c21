//! Dispatches of `matmul`, and of `attention_scores`, which is the same product with other strides.

use super::linear::{Tile, splits};
use super::reduce::sum_of_parts;
use crate::Result;
use crate::backend::vulkan::generated::matmul::{Constants, KERNEL, Push};
use crate::backend::vulkan::generated::matmul_split;
use crate::backend::vulkan::kernel::Extent;
use crate::backend::vulkan::lowering::{Build, Given, Lowering};
use crate::ops::{AttentionScores, Dim, Matmul, Strided};

/// Fewer tiles of 128 x 128 than this leave a large device idle: then tiles are smaller. The result is the same bit for
/// bit.
const FEW_TILES: usize = 256;

/// How a shader loads a tile; the values of `A_LOAD` and `B_LOAD`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Load {
    /// Along the terms of a sum.
    Terms = 0,
    /// The same, four at a time.
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
}

/// `matmul`: one dispatch, or the parts of long sums and their sum.
pub fn matmul(to: &mut Lowering<'_>, op: &Matmul) -> Result<()> {
    let product = op.strided([to.shape(0), to.shape(1)])?;
    let parts = op.parts(&product);
    if parts == 1 || to.replaced(&KERNEL).is_some() {
        return products(to, &product, "", &[]);
    }
    let sums = to.scratch(0)?;
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

/// Adds a dispatch for all products of a node, or of a part of it.
fn products(to: &mut Lowering<'_>, product: &Strided, part: &str, given: &[Given]) -> Result<()> {
    let [a_load, b_load] = [product.a, product.b].map(|strides| Load::of(strides, product.depth) as u32);
    let [a_row, a_k, a_outer, a_inner] = product.a.map(|step| step as u32);
    let [b_column, b_k, b_outer, b_inner] = product.b.map(|step| step as u32);
    let (m, n) = (product.rows as u32, product.columns as u32);
    let push = Push {
        m,
        n,
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
        y_row: n,
        y_outer: (product.inner * product.rows * product.columns) as u32,
        y_inner: (product.rows * product.columns) as u32,
        scale: product.scale,
    };
    let batches = push.batches.min(to.capabilities.workgroup_count[2]);
    let grid = |tile_m, tile_n| [n.div_ceil(tile_n), m.div_ceil(tile_m), batches].map(Extent::Fixed);
    if to.replaced(&KERNEL).is_none() && splits(to, product.columns, product.depth) {
        let rows = Dim::Fixed(product.rows * product.batches());
        let Tile { tile_m, tile_n, whole, subgroups, .. } = Tile::split(rows, n, 1, push.k, to.capabilities);
        let constants = matmul_split::Constants { tile_m, tile_n, whole, a_load, b_load, subgroups };
        let build = Build::new(to.select(&matmul_split::KERNEL)?, push, constants);
        return to.add(build, part, given, grid(tile_m, tile_n));
    }
    let (tile_m, tile_n, tile_k) = tiles(product);
    let build = Build::new(to.select(&KERNEL)?, push, Constants { tile_m, tile_n, tile_k, a_load, b_load });
    to.add(build, part, given, grid(tile_m, tile_n))
}

/// Rows, columns and terms of a tile.
fn tiles(product: &Strided) -> (u32, u32, u32) {
    let (m, n) = (product.rows, product.columns);
    if m <= 16 {
        return (16, 64, 64);
    }
    if n <= 16 {
        return (64, 16, 64);
    }
    let large = m.div_ceil(128) * n.div_ceil(128) * product.batches();
    if large < FEW_TILES {
        return (64, 64, 16);
    }
    (if m <= 64 { 64 } else { 128 }, if n <= 64 { 64 } else { 128 }, 16)
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
            let (tile_m, tile_n, tile_k) = tiles(&product(&plain, &[m, 64], &[64, n]));
            assert!((tile_m + tile_n) * (tile_k / 4 + 1) * 16 <= Capabilities::floor().shared_memory);
            assert_eq!((tile_m * tile_k % 1024, tile_n * tile_k % 1024), (0, 0), "{m} x {n}");
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
        let both = Matmul { transpose_a: true, transpose_b: true, scale: 1.0 };
        assert_eq!(loads(&both, &[2, 8, 5], &[2, 7, 8]), (Load::Rows, Load::Quads));
        // The second matrix of a begins at element 15.
        assert_eq!(loads(&Matmul::default(), &[2, 5, 3], &[2, 3, 1]), (Load::Terms, Load::Terms));
    }
}
