//! The part of a product that a workgroup computes, and which devices support it. No tile size changes a bit of the
//! result.

use super::{GATED_TILE, Site};
use crate::backend::vulkan::Capabilities;
use crate::backend::vulkan::flash::vendor;
use crate::backend::vulkan::generated::Tile;
use crate::backend::vulkan::kernel::Variant;
use crate::backend::vulkan::kernels::builds::Fit;
use crate::backend::vulkan::lowering::Lowering;
use crate::ops::{Counts, Dim, Shape};

/// Invocations per workgroup of `linear-shuffle.glsl`.
pub const SHUFFLE_INVOCATIONS: u32 = 64;
/// Invocations per workgroup of `linear-matrix.glsl`.
const MATRIX_INVOCATIONS: u32 = 256;
/// Terms per block of `split-tiles.glsl`.
const SPLIT_STEP: u32 = 32;
/// Fewer tiles than this leave multiprocessors idle: then tiles are smaller, with the same result bit for bit.
const FEW_TILES: u32 = 128;

impl Tile {
    /// In shared memory: 128 x 128, narrower for few columns; the step along k as long as row and memory permit.
    pub fn shared(n: u32, k: u32, capabilities: &Capabilities) -> Tile {
        let tile = |step| Tile {
            tile_m: 128,
            tile_n: if n <= 64 { 64 } else { 128 },
            tile_k: step,
            whole: k.is_multiple_of(step),
            ..Tile::default()
        };
        let (long, short) = (tile(32), tile(16));
        let fits = |tile: Tile| tile.shared_bytes() <= capabilities.shared_memory;
        // GCN holds one subgroup of the longer step at a time and two of the shorter, which then takes 0.81 of the estimate: tests/amd.csv.
        let gcn = vendor(capabilities) == "amd" && capabilities.least_subgroup_size == 64;
        match (long.whole && fits(long) && !gcn, fits(short)) {
            (true, _) => long,
            (false, true) => short,
            // WebGPU's least: half of Vulkan's.
            (false, false) => Tile { tile_m: 64, ..short },
        }
    }

    /// Shared memory of `linear.glsl` and `matmul.glsl`: rows of both operands in groups of four k, plus one group.
    pub fn shared_bytes(self) -> u32 {
        (self.tile_m + self.tile_n) * (self.tile_k / 4 + 1) * 16
    }

    /// On matrix cores, where a binding takes the weight whole; rows that none takes run nowhere.
    pub(super) fn matrix(to: &Lowering<'_>, of: &Site, variant: &'static Variant) -> Fit<Tile> {
        binds(to, &[(to.shape(of.weight), 2)])?;
        let cores = Tile::of_cores(variant, to.capabilities);
        cores.on_matrix_cores(of.rows, of.n, of.weights, of.k, to.capabilities.shared_memory).dealt(of.weights)
    }

    /// In float32 on matrix cores.
    pub(super) fn split(to: &Lowering<'_>, of: &Site, variant: &'static Variant) -> Fit<Tile> {
        to.may_split()?;
        let cores = Tile::of_lanes(variant, to.capabilities.lanes_of_splits());
        cores.of_split(of.rows, of.n, of.weights, of.k, to.capabilities.shared_memory)
    }

    /// With shuffles, which feed the lanes better where shared memory is emulated; the bits are those of the plain build.
    pub(super) fn shuffled(_: &Lowering<'_>, of: &Site, variant: &'static Variant) -> Fit<Tile> {
        let columns = if of.n <= 64 && !variant.stored.is_narrow() { 1 } else { 4 };
        Ok(Tile { rows: 16, columns, ..Tile::default() })
    }

    /// In shared memory.
    pub(super) fn plain(to: &Lowering<'_>, of: &Site, _: &'static Variant) -> Fit<Tile> {
        Ok(Tile::shared(if of.weights > 1 { GATED_TILE } else { of.n }, of.k, to.capabilities))
    }

    /// What all tiles on matrix cores have: the shape of the variant's matrices, and the subgroups that share a tile.
    pub fn of_cores(variant: &Variant, capabilities: &Capabilities) -> Tile {
        Tile::of_lanes(variant, capabilities.subgroup_size)
    }

    /// The same with subgroups of so many lanes.
    pub fn of_lanes(variant: &Variant, lanes: u32) -> Tile {
        let [matrix_m, matrix_n, matrix_k] = variant.matrix().unwrap_or([1; 3]);
        Tile { matrix_m, matrix_n, matrix_k, subgroups: MATRIX_INVOCATIONS / lanes.max(1), ..Tile::default() }
    }

    /// Rows and columns of subgroups in a tile, as `subgroup-tiles.glsl` has them.
    fn subgroup_grid(self) -> [u32; 2] {
        let beside = if self.subgroups > 16 { 4 } else { 2 };
        [(self.subgroups / beside).max(1), beside]
    }

    /// The tile, if each subgroup gets whole matrices of it; so many weights are side by side in its columns.
    pub fn dealt(self, weights: u32) -> Fit<Tile> {
        let ([down, beside], Tile { matrix_m: m, matrix_n: n, matrix_k: k, .. }) = (self.subgroup_grid(), self);
        let whole = self.tile_m.is_multiple_of(down * m) && (self.tile_n / weights).is_multiple_of(beside * n);
        // Of a split product, whose steps have always 32 terms, this is 0.
        let fits = whole && self.tile_k.is_multiple_of(k) && self.subgroups > 1;
        if fits { Ok(self) } else { Err("its tiles cannot be shared by so many subgroups") }
    }

    /// The largest tile that keeps the device busy and fits its shared memory.
    pub fn on_matrix_cores(self, rows: Dim, n: u32, weights: u32, k: u32, shared_memory: u32) -> Tile {
        let [x_unit, y_unit] = [k, n].map(|width| unit_of(&[width as usize]));
        let whole = k.is_multiple_of(16);
        let sized = |[tile_m, tile_n]: [u32; 2]| Tile { tile_m, tile_n, tile_k: 16, whole, x_unit, y_unit, ..self };
        let size = sized(if busy(rows, weights * n, [192, 128]) { [192, 128] } else { [64, 64] });
        // Subgroups of few lanes have too few columns of the small tile.
        let size = size.dealt(weights).unwrap_or(sized([64, 128]));
        // A last step that is not whole adds at most an eighth of the terms.
        let fits = |step: &u32| if whole { k.is_multiple_of(*step) } else { k.next_multiple_of(*step) - k <= k / 8 };
        let steps = [64, 32, 16].into_iter().filter(fits);
        let mut tiles = steps.map(|tile_k| Tile { tile_k, ..size });
        let small = if size.tile_m > 64 { sized([64, 64]) } else { size };
        tiles.find(|tile| tile.matrix_bytes() <= shared_memory).unwrap_or(small)
    }

    /// The same with rows, columns and terms of a step, where sums may have any number of terms.
    fn stepped(self, [tile_m, tile_n, tile_k]: [u32; 3], k: u32) -> Tile {
        Tile { tile_m, tile_n, tile_k, whole: k.is_multiple_of(tile_k), ..self }
    }

    /// The first of these that keeps the device busy and fits its shared memory, or a small one.
    fn first(tried: &[Tile], small: Tile, rows: Dim, n: u32, fits: impl Fn(&Tile) -> bool) -> Tile {
        *tried.iter().find(|tile| busy(rows, n, [tile.tile_m, tile.tile_n]) && fits(tile)).unwrap_or(&small)
    }

    /// The same for `matmul-matrix.glsl`, whose sums may have any number of terms.
    pub fn of_matrices(self, rows: usize, n: u32, k: u32, device: &Capabilities) -> Tile {
        let sized = |tile_m, tile_n, tile_k| self.stepped([tile_m, tile_n, tile_k], k);
        let tried = [sized(192, 128, 64), sized(128, 128, 64), sized(128, 128, 32)];
        // Of both operands transposed, 192 rows take more registers than a GPU of AMD has: tests/amd.py long.
        let most = if vendor(device) == "amd" { 128 } else { 192 };
        // Few rows, as of a query, do not fill a large tile.
        let most = if rows <= 64 { 64 } else { most };
        let fits = |tile: &Tile| tile.tile_m <= most && tile.of_matrices_bytes() <= device.shared_memory;
        Tile::first(&tried, sized(64, 64, 32), Dim::Fixed(rows), n, fits)
    }

    /// Shared memory of `matmul-matrix.glsl`: operands in lines of terms or of rows, whichever takes more, then the results
    /// of the subgroups that share rows.
    fn of_matrices_bytes(self) -> u32 {
        let ([down, _], Tile { tile_m: m, tile_n: n, tile_k: k, .. }) = (self.subgroup_grid(), self);
        let lines = |rows: u32| (rows * (k / 8 + 1)).max(k * (rows / 8 + 1));
        16 * (lines(m) + lines(n)).max(m / down * (n / 4 + 1))
    }

    /// The same for `integer-linear-matrix.glsl`.
    pub fn of_integers(self, rows: Dim, n: u32, k: u32, shared_memory: u32) -> Tile {
        let sized = |tile_m, tile_n, tile_k| self.stepped([tile_m, tile_n, tile_k], k);
        let tried = [sized(192, 128, 128), sized(128, 128, 64)];
        let fits = |tile: &Tile| tile.of_integers_bytes() <= shared_memory;
        let small = [sized(64, 64, 128), sized(64, 64, 64)];
        Tile::first(&tried, *small.iter().find(|tile| fits(tile)).unwrap_or(&small[1]), rows, n, fits)
    }

    /// Shared memory of `integer-linear-matrix.glsl`: operands in rows of k, then a column of matrices of each subgroup, or
    /// results; at most, in addition, two numbers per row and three per column.
    fn of_integers_bytes(self) -> u32 {
        let ([down, beside], Tile { tile_m: m, tile_n: n, tile_k: k, .. }) = (self.subgroup_grid(), self);
        // Half a quad of a row's terms in a matrix takes a quad.
        let quads = k / self.matrix_k.min(16) + 1;
        let results = (m * (beside * self.matrix_n / 4 + 1)).max(m / down * (n / 4 + 1));
        16 * ((m + n) * quads).max(results) + 4 * (2 * m + 3 * n)
    }

    /// The same for the builds of `split-tiles.glsl`, with one or two weights of `n` rows, whose tiles are side by side.
    pub fn of_split(self, rows: Dim, n: u32, weights: u32, k: u32, shared_memory: u32) -> Fit<Tile> {
        let sized = |size: u32| Tile {
            tile_m: size,
            tile_n: if weights == 1 { size } else { 128 },
            whole: k.is_multiple_of(SPLIT_STEP),
            ..self
        };
        // With 64 lanes, matrices of 128 rows take more registers than a GPU of AMD has: tests/amd.csv.
        let large = Tile { tile_m: if self.subgroups < 8 { 64 } else { 128 }, ..sized(128) };
        let fits = |tile: &Tile| tile.split_bytes() <= shared_memory;
        let mut tried = busy(rows, weights * n, [large.tile_m, 128]).then_some(large).into_iter().chain([sized(64)]);
        tried.find(fits).ok_or("its tiles are larger than shared memory")?.dealt(1)
    }

    /// Shared memory of `split-tiles.glsl`: both parts of the operands in rows of k, and a factor per row.
    fn split_bytes(self) -> u32 {
        (self.tile_m + self.tile_n) * (2 * 16 * (SPLIT_STEP / 8 + 1) + 4) + 4
    }

    /// Shared memory of `linear-matrix.glsl`: operands in rows of k, then half of the result's columns or, in float32, the
    /// rows of two subgroups; in addition, with a folded norm, two numbers per row and column and two steps of the norm's
    /// weight, and otherwise at most the bias.
    fn matrix_bytes(self) -> u32 {
        let rows = |count: u32, columns: u32| count * (columns / 8 + 1) * 16;
        let ([down, beside], Tile { tile_m: m, tile_n: n, tile_k: k, .. }) = (self.subgroup_grid(), self);
        let results = rows(m, n / beside).max(rows(m / down, 2 * n));
        rows(m + n, k).max(results) + 8 * (m + n) + 4 * k
    }
}

/// The elements, at most eight, at whose multiples all rows of these widths start: a unit of
/// `shaders/include/matrix/units.glsl`.
pub fn unit_of(widths: &[usize]) -> u32 {
    let all = |unit: &u32| widths.iter().all(|width| width.is_multiple_of(*unit as usize));
    [8, 4, 2].into_iter().find(all).unwrap_or(1)
}

/// Whether so many rows and columns in tiles keep a device busy; rows that the batch counts do.
fn busy(rows: Dim, n: u32, [m, width]: [u32; 2]) -> bool {
    !matches!(rows, Dim::Fixed(rows) if (rows as u32).div_ceil(m) * n.div_ceil(width) < FEW_TILES)
}

/// Whether a binding takes all of these, with so many bytes an element.
pub fn binds(to: &Lowering<'_>, shapes: &[(&Shape, usize)]) -> Fit<()> {
    let bytes = |(shape, bytes): &(&Shape, usize)| bytes * shape.elements(Counts::default());
    match shapes.iter().all(|of| bytes(of) as u64 <= to.capabilities.storage_buffer_range) {
        true => Ok(()),
        false => Err("an operand is larger than a binding"),
    }
}

#[cfg(test)]
mod tests;
