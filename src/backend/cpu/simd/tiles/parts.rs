//! The parts of floats: each is three bfloat16 numbers, in panels.

use pulp::{Simd, WithSimd};

use super::PANEL;

/// Terms per tile product.
pub(super) const BLOCK: usize = 32;

/// Size in floats of a tile, and of a block of a panel: three parts of two tiles.
pub(super) const TILE: usize = 256;
pub(super) const PANEL_BLOCK: usize = 3 * 2 * TILE;

/// Size in floats of a panel of depth `depth`.
pub fn panel_floats(depth: usize) -> usize {
    depth.div_ceil(BLOCK) * PANEL_BLOCK
}

/// The nearest bfloat16, as the upper half of a word; a carry correctly propagates into the exponent.
#[inline(always)]
fn nearest<S: Simd>(simd: S, x: S::f32s) -> S::u32s {
    let rounded = simd.add_u32s(simd.transmute_u32s_f32s(x), simd.splat_u32s(0x8000));
    simd.and_u32s(rounded, simd.splat_u32s(0xffff_0000))
}

/// Splits 32 floats into three parts, each as 16 words: the k-th in the lower half, the (k + 16)-th in the upper.
/// Returns false if one of them cannot be split: NaN, infinite, or 2^127 and more.
#[inline(always)]
fn split<S: Simd>(simd: S, x: &[f32; BLOCK], parts: &mut [[f32; 16]; 3]) -> bool {
    let sixteen = simd.splat_u32s(16);
    let vectors = S::as_simd_f32s(x).0;
    let (lows, highs) = vectors.split_at(vectors.len() / 2);
    let mut finite = simd.splat_f32s(0.0);
    for (i, (low, high)) in lows.iter().zip(highs).enumerate() {
        let (mut low, mut high) = (*low, *high);
        finite = simd.mul_add_f32s(simd.add_f32s(low, low), simd.splat_f32s(0.0), finite);
        finite = simd.mul_add_f32s(simd.add_f32s(high, high), simd.splat_f32s(0.0), finite);
        for part in parts.iter_mut() {
            let (l, h) = (nearest(simd, low), nearest(simd, high));
            let word = simd.or_u32s(simd.wrapping_dyn_shr_u32s(l, sixteen), h);
            S::as_mut_simd_f32s(part).0[i] = simd.transmute_f32s_u32s(word);
            low = simd.sub_f32s(low, simd.transmute_f32s_u32s(l));
            high = simd.sub_f32s(high, simd.transmute_f32s_u32s(h));
        }
    }
    simd.reduce_sum_f32s(finite) == 0.0
}

/// Splits `count` floats from `x` on, padded with zeros.
#[inline(always)]
pub(super) fn split_some<S: Simd>(simd: S, x: &[f32], parts: &mut [[f32; 16]; 3]) -> bool {
    match x.first_chunk::<BLOCK>() {
        Some(x) => split(simd, x, parts),
        None => {
            let mut padded = [0.0; BLOCK];
            padded[..x.len()].copy_from_slice(x);
            split(simd, &padded, parts)
        }
    }
}

/// One panel of B: `rows` are up to 32 columns of B, `depth` floats each.
pub struct PackPanel<'a> {
    /// `[up to 32, depth]`
    pub rows: &'a [f32],
    /// Terms.
    pub depth: usize,
    /// [`panel_floats`] zeros, to be filled.
    pub panel: &'a mut [f32],
}

impl WithSimd for PackPanel<'_> {
    /// Whether all of its numbers can be split.
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> bool {
        let mut good = true;
        let mut parts = [[0.0; 16]; 3];
        for (n, row) in self.rows.chunks_exact(self.depth).enumerate() {
            for (x, block) in row.chunks(BLOCK).zip(self.panel.chunks_exact_mut(PANEL_BLOCK)) {
                good &= split_some(simd, x, &mut parts);
                for (part, tiles) in parts.iter().zip(block.chunks_exact_mut(2 * TILE)) {
                    let tile = &mut tiles[n / 16 * TILE..][..TILE];
                    for (i, word) in part.iter().enumerate() {
                        tile[16 * i + n % 16] = *word;
                    }
                }
            }
        }
        good
    }
}

/// `B[k, j]`, reassembled from its parts.
pub(super) fn unpacked(panels: &[f32], depth: usize, k: usize, j: usize) -> f32 {
    let panel = &panels[j / PANEL * panel_floats(depth)..];
    let block = &panel[k / BLOCK * PANEL_BLOCK..];
    let place = j % PANEL / 16 * TILE + k % 16 * 16 + j % 16;
    let half = if k % BLOCK < 16 { 16 } else { 0 };
    // The sum is exact in this order: the last two parts are the remainder of the first.
    let part = |number: usize| f32::from_bits((block[number * 2 * TILE + place].to_bits() << half) & 0xffff_0000);
    part(0) + (part(1) + part(2))
}
