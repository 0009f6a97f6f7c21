//! The part of a product that a workgroup computes, and which devices support it. No tile size changes a bit of the
//! result.

use super::How;
use crate::backend::vulkan::generated::Tile;
use crate::backend::vulkan::generated::integer_linear_matrix::KERNEL as OF_INTEGERS;
use crate::backend::vulkan::generated::linear_matrix::KERNEL;
use crate::backend::vulkan::kernel::Kernel;
use crate::backend::vulkan::lowering::Lowering;
use crate::backend::vulkan::{Capabilities, DeviceType, Feature};
use crate::dtype::DType;
use crate::graph::shaders::Float32Products;
use crate::ops::{Counts, Dim, Shape};

/// Invocations per workgroup of `linear-shuffle.glsl`.
const SHUFFLE_INVOCATIONS: u32 = 64;
/// Invocations per workgroup of `linear-matrix.glsl`.
const MATRIX_INVOCATIONS: u32 = 256;
/// Terms per block of `split-tiles.glsl`.
const SPLIT_STEP: u32 = 32;
/// Shorter sums, and results of fewer columns, are plain.
const LEAST_SPLIT: usize = 32;
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
        match (long.whole && fits(long), fits(short)) {
            (true, _) => long,
            (false, true) => short,
            // WebGPU's least: half of Vulkan's.
            (false, false) => Tile { tile_m: 64, ..short },
        }
    }

    /// Shared memory of `linear.glsl`: rows of x and of the weight in groups of four k, plus one group.
    fn shared_bytes(self) -> u32 {
        (self.tile_m + self.tile_n) * (self.tile_k / 4 + 1) * 16
    }

    /// Tile of the shuffle build.
    pub fn shuffled(n: u32, stored: DType) -> Tile {
        Tile { rows: 16, columns: if n <= 64 && !stored.is_narrow() { 1 } else { 4 }, ..Tile::default() }
    }

    /// The largest tile that keeps the device busy and fits its shared memory.
    pub fn on_matrix_cores(rows: Dim, n: u32, k: u32, capabilities: &Capabilities) -> Tile {
        let subgroups = MATRIX_INVOCATIONS / capabilities.subgroup_size.max(1);
        let few = |m: u32| matches!(rows, Dim::Fixed(rows) if (rows as u32).div_ceil(m) * n.div_ceil(128) < FEW_TILES);
        let (tile_m, tile_n) = if few(192) { (64, 64) } else { (192, 128) };
        let steps = [64, 32, 16].into_iter().filter(|step| k.is_multiple_of(*step));
        let mut tiles = steps.map(|tile_k| Tile { tile_m, tile_n, tile_k, subgroups, ..Tile::default() });
        let small = Tile { tile_m: 64, tile_n: 64, tile_k: 16, subgroups, ..Tile::default() };
        tiles.find(|tile| tile.matrix_bytes() <= capabilities.shared_memory).unwrap_or(small)
    }

    /// Rows, columns and terms of a step on matrix cores, where sums may have any number of terms.
    fn stepped([tile_m, tile_n, tile_k]: [u32; 3], k: u32, capabilities: &Capabilities) -> Tile {
        let subgroups = MATRIX_INVOCATIONS / capabilities.subgroup_size.max(1);
        Tile { tile_m, tile_n, tile_k, subgroups, whole: k.is_multiple_of(tile_k), ..Tile::default() }
    }

    /// The same for `matmul-matrix.glsl`, whose sums may have any number of terms.
    pub fn of_matrices(rows: usize, n: u32, k: u32, capabilities: &Capabilities) -> Tile {
        let sized = |tile_m, tile_n, tile_k| Tile::stepped([tile_m, tile_n, tile_k], k, capabilities);
        let busy = |tile: &Tile| (rows as u32).div_ceil(tile.tile_m) * n.div_ceil(tile.tile_n) >= FEW_TILES;
        let fits = |tile: &Tile| tile.of_matrices_bytes() <= capabilities.shared_memory;
        let tried = [sized(192, 128, 64), sized(128, 128, 64), sized(128, 128, 32)];
        tried.into_iter().find(|tile| busy(tile) && fits(tile)).unwrap_or_else(|| sized(64, 64, 32))
    }

    /// Shared memory of `matmul-matrix.glsl`: operands in lines of terms or of rows, whichever takes more, then the results
    /// of the subgroups that share rows.
    fn of_matrices_bytes(self) -> u32 {
        let Tile { tile_m: m, tile_n: n, tile_k: k, subgroups, .. } = self;
        let lines = |rows: u32| (rows * (k / 8 + 1)).max(k * (rows / 8 + 1));
        16 * (lines(m) + lines(n)).max(m / (subgroups / 2).max(1) * (n / 4 + 1))
    }

    /// The same for `integer-linear-matrix.glsl`.
    pub fn of_integers(rows: Dim, n: u32, k: u32, capabilities: &Capabilities) -> Tile {
        let sized = |tile_m, tile_n, tile_k| Tile::stepped([tile_m, tile_n, tile_k], k, capabilities);
        let busy = |tile: &Tile| match rows {
            Dim::Fixed(rows) => (rows as u32).div_ceil(tile.tile_m) * n.div_ceil(tile.tile_n) >= FEW_TILES,
            _ => true,
        };
        let fits = |tile: &Tile| tile.of_integers_bytes() <= capabilities.shared_memory;
        let tried = [sized(192, 128, 128), sized(128, 128, 64)];
        tried.into_iter().find(|tile| busy(tile) && fits(tile)).unwrap_or_else(|| sized(64, 64, 128))
    }

    /// Shared memory of `integer-linear-matrix.glsl`: operands in rows of k, then a column of matrices of each subgroup, or
    /// results; at most, in addition, two numbers per row and three per column.
    fn of_integers_bytes(self) -> u32 {
        let Tile { tile_m: m, tile_n: n, tile_k: k, .. } = self;
        16 * ((m + n) * (k / 16 + 1)).max(m * 9) + 4 * (2 * m + 3 * n)
    }

    /// The same for the builds of `split-tiles.glsl`, with one or two weights of `n` rows, whose tiles are side by side.
    pub fn split(rows: Dim, n: u32, weights: u32, k: u32, capabilities: &Capabilities) -> Tile {
        let subgroups = MATRIX_INVOCATIONS / capabilities.subgroup_size.max(1);
        let few =
            matches!(rows, Dim::Fixed(rows) if (rows as u32).div_ceil(128) * (weights * n).div_ceil(128) < FEW_TILES);
        let sized = |size: u32| Tile {
            tile_m: size,
            tile_n: if weights == 1 { size } else { 128 },
            subgroups,
            whole: k.is_multiple_of(SPLIT_STEP),
            ..Tile::default()
        };
        let large = sized(128);
        if few || large.split_bytes() > capabilities.shared_memory { sized(64) } else { large }
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
        let Tile { tile_m: m, tile_n: n, tile_k: k, subgroups, .. } = self;
        let results = rows(m, n / 2).max(rows(m / (subgroups / 2).max(1), 2 * n));
        rows(m + n, k).max(results) + 8 * (m + n) + 4 * k
    }

    /// Rows and columns per workgroup.
    pub(super) fn workgroup(self, how: How) -> (u32, u32) {
        match how {
            How::Shuffle => (self.rows, SHUFFLE_INVOCATIONS * self.columns),
            How::Matrix | How::Split | How::Tiled => (self.tile_m, self.tile_n),
        }
    }
}

/// Whether shuffles feed the lanes better than shared memory does: they do where shared memory is emulated. Both builds
/// give the same bits.
pub fn shuffles(capabilities: &Capabilities) -> bool {
    capabilities.device_type == DeviceType::Software
        && capabilities.has(Feature::SubgroupShuffle)
        && SHUFFLE_INVOCATIONS.is_multiple_of(capabilities.subgroup_size.max(1))
}

/// Whether the device multiplies operand 0 and the weight at a position, whose rows are a multiple of eight, on matrix
/// cores.
pub fn fits_matrices(to: &Lowering<'_>, weight: usize) -> bool {
    let (stored, capabilities) = (to.dtype(weight), to.capabilities);
    let (x, weight) = (to.shape(0), to.shape(weight));
    let bytes = |shape: &Shape| 2 * shape.elements(Counts::default()) as u64;
    matches!(MATRIX_INVOCATIONS.checked_div(capabilities.subgroup_size), Some(4 | 8))
        && KERNEL.own(stored, capabilities).is_ok()
        && x.columns() > 0
        && x.columns().is_multiple_of(16)
        && bytes(x).max(bytes(weight)) <= capabilities.storage_buffer_range
}

/// Whether rows of operand 0, of 8-bit integers, and of the weight at a position can be read sixteen at a time, and results
/// written four at a time, if no shader replaces `kernel`.
pub fn in_sixteens(to: &Lowering<'_>, kernel: &Kernel, weight: usize) -> bool {
    let (x, weight) = (to.shape(0), to.shape(weight));
    let [x_bytes, weight_bytes, y_bytes] =
        [(x, 1), (weight, 1), (&to.result().shape, 4)].map(|(shape, bytes)| bytes * shape.elements(Counts::default()));
    to.replaced(kernel).is_none()
        && x.columns() > 0
        && x.columns().is_multiple_of(16)
        && weight.rows().size(Counts::default()).is_multiple_of(4)
        && x_bytes.max(weight_bytes).max(y_bytes) as u64 <= to.capabilities.storage_buffer_range
}

/// Whether the device multiplies 8-bit integers on matrix cores.
pub fn fits_integers(to: &Lowering<'_>) -> bool {
    matches!(MATRIX_INVOCATIONS.checked_div(to.capabilities.subgroup_size), Some(4 | 8))
        && OF_INTEGERS.own(DType::F32, to.capabilities).is_ok()
}

/// Whether products of a node with float32 operands run on matrix cores, with `n` columns and `k` terms per sum.
pub fn splits(to: &Lowering<'_>, n: usize, k: usize) -> bool {
    to.float32_products() == Float32Products::Split && n.min(k) >= LEAST_SPLIT && to.capabilities.splits_float32()
}

#[cfg(test)]
mod tests;
