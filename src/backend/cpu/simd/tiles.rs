//! Products on the processor's tile registers (AMX), with the precision of float32.
//!
//! The tile unit multiplies bfloat16 and sums in float32, at sixteen times as many terms per cycle as the vector unit.
//! A float is exactly the sum of three bfloat16 numbers, `x = x0 + x1 + x2` with `|x1| <= 2^-8 |x|`, `|x2| <= 2^-16
//! |x|`, so six products of parts replace one product of floats:
//!
//! ```text
//! a b = a0 b2 + a0 b1 + a1 b1 + a1 b0 + a2 b0 + a0 b0      (a1 b2 + a2 b1 + a2 b2 < 2^-23 |a b| are left out)
//! ```
//! (Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype for Higher-Precision Computations,
//! 2019.) Sums run over k in blocks of 32 from first to last, so their order depends on the depth alone.
//!
//! ```text
//! packed:  [panel of 32][block of 32 k][part 0, 1, 2][tile 0, 1][16 x 64 bytes]     of A: panel of rows, of B: of columns
//! a row of a tile of A: (k, k + 16) pairs of one row; row i of a tile of B: (k = i, k = i + 16) of 16 columns
//! ```

use std::cell::RefCell;

use pulp::{Simd, WithSimd};

use super::Arch;
use super::tile::Finish;
use crate::Result;
use crate::backend::cpu::floats::Floats;

/// Rows of A, and columns of B, that are multiplied at a time: two tiles.
pub const PANEL: usize = 32;

/// Terms per tile product.
const BLOCK: usize = 32;

/// Size in floats of a tile, and of a block of a panel: three parts of two tiles.
const TILE: usize = 256;
const PANEL_BLOCK: usize = 3 * 2 * TILE;

/// Bytes of A's parts that stay in the second-level cache during the loop over all panels of B.
const CACHED: usize = 1152 << 10;

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
fn split_some<S: Simd>(simd: S, x: &[f32], parts: &mut [[f32; 16]; 3]) -> bool {
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
fn unpacked(panels: &[f32], depth: usize, k: usize, j: usize) -> f32 {
    let panel = &panels[j / PANEL * panel_floats(depth)..];
    let block = &panel[k / BLOCK * PANEL_BLOCK..];
    let place = j % PANEL / 16 * TILE + k % 16 * 16 + j % 16;
    let half = if k % BLOCK < 16 { 16 } else { 0 };
    // The sum is exact in this order: the last two parts are the remainder of the first.
    let part = |number: usize| f32::from_bits((block[number * 2 * TILE + place].to_bits() << half) & 0xffff_0000);
    part(0) + (part(1) + part(2))
}

/// `out[i, j] = act(sum_k a[i, k] b[k, j] + bias[j]) + residual[i, j]`
pub struct TileProduct<'a> {
    /// `[rows, depth]`
    pub a: &'a [f32],
    /// Rows of A and of the result.
    pub rows: usize,
    /// Columns of A, rows of B.
    pub depth: usize,
    /// B, packed by [`PackPanel`].
    pub panels: &'a [f32],
    /// Columns of the result.
    pub columns: usize,
    /// Added to the sums, padded like the panels; empty for none.
    pub bias: &'a [f32],
    /// Applied after the bias.
    pub finish: Finish<'a>,
    /// `[rows, columns]`, rows `out_stride` apart.
    pub out: &'a mut [f32],
    /// Stride between rows of the result, in elements.
    pub out_stride: usize,
}

thread_local! {
    /// A's parts, per thread, reused between products.
    static PARTS: RefCell<Floats> = RefCell::default();
}

impl TileProduct<'_> {
    /// Computes the product.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn run(mut self, arch: Arch, unit: TileUnit) -> Result<()> {
        let panel = panel_floats(self.depth);
        let block = (CACHED / (4 * panel.max(1))).clamp(1, 16) * PANEL;
        PARTS.with_borrow_mut(|parts| {
            parts.resize(block.min(self.rows).div_ceil(PANEL) * panel, "a product's parts")?;
            let configured = unit.configure();
            for first in (0..self.rows).step_by(block) {
                let rows = first..self.rows.min(first + block);
                arch.dispatch(Rows { product: &mut self, configured: &configured, parts, rows });
            }
            Ok(())
        })
    }
}

impl TileProduct<'_> {
    /// The epilogue of up to 32 sums of a row, from `column` on.
    #[inline(always)]
    fn store<S: Simd>(&mut self, simd: S, row: usize, column: usize, sums: &[f32]) {
        let width = PANEL.min(self.columns - column);
        let start = row * self.out_stride + column;
        let out = &mut self.out[start..][..width];
        let bias = self.bias.get(column..column + PANEL).unwrap_or(&[]);
        if width < PANEL {
            out.copy_from_slice(&sums[..width]);
            out.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
        } else {
            let (sums, out) = (S::as_simd_f32s(sums).0, S::as_mut_simd_f32s(out).0);
            if bias.is_empty() {
                out.copy_from_slice(sums);
            }
            for ((y, x), bias) in out.iter_mut().zip(sums).zip(S::as_simd_f32s(bias).0) {
                *y = simd.add_f32s(*x, *bias);
            }
        }
        self.finish.apply(simd, out, start);
    }
}

/// Some rows of a product, few enough for their parts to stay in cache.
struct Rows<'a, 'p> {
    product: &'a mut TileProduct<'p>,
    configured: &'a Configured,
    parts: &'a mut [f32],
    rows: std::ops::Range<usize>,
}

impl WithSimd for Rows<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Rows { product, configured, parts, rows } = self;
        let (depth, panel) = (product.depth, panel_floats(product.depth));
        let mut bad = Vec::new();
        let mut of_row = [[0.0; 16]; 3];
        for (i, row) in product.a[rows.start * depth..rows.end * depth].chunks_exact(depth.max(1)).enumerate() {
            let mut good = true;
            let own = &mut parts[i / PANEL * panel..][..panel];
            for (x, block) in row.chunks(BLOCK).zip(own.chunks_exact_mut(PANEL_BLOCK)) {
                good &= split_some(simd, x, &mut of_row);
                for (part, tiles) in of_row.iter().zip(block.chunks_exact_mut(2 * TILE)) {
                    tiles[i % PANEL * 16..][..16].copy_from_slice(part);
                }
            }
            if !good {
                bad.push(rows.start + i);
            }
        }
        let mut sums = Sums([0.0; PANEL * PANEL]);
        // While the rows are multiplied with a panel of B, the next panel is prefetched, a share per 32 rows.
        let share = panel / rows.len().div_ceil(PANEL).max(1);
        for column in (0..product.columns).step_by(PANEL) {
            let b = &product.panels[column / PANEL * panel..][..panel];
            let next = product.panels.get((column / PANEL + 1) * panel..).filter(|next| !next.is_empty()).unwrap_or(b);
            for (number, top) in rows.clone().step_by(PANEL).enumerate() {
                let count = PANEL.min(rows.end - top);
                let (a, next) = (&parts[number * panel..][..panel], &next[number * share..][..share]);
                configured.multiply(a, b, count, next, &mut sums);
                for (i, sums) in sums.0.chunks_exact(PANEL).take(count).enumerate() {
                    product.store(simd, top + i, column, sums);
                }
            }
        }
        // Infinity cannot be split: its product with a zero part would be NaN. Such rows are multiplied directly.
        for row in bad {
            let a = &product.a[row * depth..][..depth];
            for j in 0..product.columns {
                let b = |k| unpacked(product.panels, depth, k, j);
                let sum = a.iter().enumerate().fold(0.0f32, |sum, (k, x)| x.mul_add(b(k), sum));
                product.out[row * product.out_stride + j] = sum + product.bias.get(j).unwrap_or(&0.0);
            }
            let start = row * product.out_stride;
            product.finish.apply(simd, &mut product.out[start..][..product.columns], start);
        }
    }
}

/// `[32, 32]`
#[repr(align(64))]
struct Sums([f32; PANEL * PANEL]);

/// Proof that this process may use the tile registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileUnit(());

/// Proof that this thread's tile registers are configured; they are released on drop.
pub(super) struct Configured(std::marker::PhantomData<*const ()>);

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[allow(unsafe_code)]
mod unit {
    use std::arch::asm;
    use std::sync::OnceLock;

    use super::{Configured, PANEL, PANEL_BLOCK, Sums, TileUnit};

    /// Requests the tile registers from the system; the permission is valid for the life of the process and its
    /// children.
    fn available() -> bool {
        if !is_x86_feature_detected!("avx512f") {
            return false;
        }
        // Leaf 7: AMX-BF16 and AMX-TILE.
        let features = std::arch::x86_64::__cpuid_count(7, 0).edx;
        if features & (1 << 22) == 0 || features & (1 << 24) == 0 {
            return false;
        }
        const ARCH_PRCTL: u64 = 158;
        const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
        const TILE_DATA: u64 = 18;
        let mut result = ARCH_PRCTL;
        // SAFETY: a system call that reads no memory of ours; it fails where the kernel does not support tiles.
        unsafe {
            asm!("syscall", inout("rax") result, in("rdi") ARCH_REQ_XCOMP_PERM, in("rsi") TILE_DATA,
                out("rcx") _, out("r11") _, options(nostack));
        }
        result == 0
    }

    /// Palette 1, eight tiles of 16 rows of 64 bytes.
    #[repr(C, align(64))]
    struct Configuration {
        palette: u8,
        start: u8,
        reserved: [u8; 14],
        row_bytes: [u16; 16],
        rows: [u8; 16],
    }

    static EIGHT_TILES: Configuration = Configuration {
        palette: 1,
        start: 0,
        reserved: [0; 14],
        row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
        rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
    };

    impl TileUnit {
        /// The tile unit, if the processor has one and the system lets this process use it.
        pub fn try_new() -> Option<TileUnit> {
            static AVAILABLE: OnceLock<bool> = OnceLock::new();
            AVAILABLE.get_or_init(available).then_some(TileUnit(()))
        }

        pub(in crate::backend::cpu::simd) fn configure(self) -> Configured {
            // SAFETY: `self` proves that the instruction exists and is allowed.
            unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const EIGHT_TILES, options(nostack, readonly)) };
            Configured(std::marker::PhantomData)
        }
    }

    impl Drop for Configured {
        fn drop(&mut self) {
            // SAFETY: only a thread with configured tiles has a `Configured`.
            unsafe { asm!("tilerelease", options(nostack, nomem)) };
        }
    }

    impl Configured {
        /// Computes `sums = a b` for the first `rows` rows, rounded up to 16, of a panel of A and a panel of B.
        /// Meanwhile `next` is prefetched into the second-level cache.
        #[inline(always)]
        pub(super) fn multiply(&self, a: &[f32], b: &[f32], rows: usize, next: &[f32], sums: &mut Sums) {
            assert!(a.len() == b.len() && a.len().is_multiple_of(PANEL_BLOCK));
            let blocks = a.len() / PANEL_BLOCK;
            if blocks == 0 {
                sums.0 = [0.0; PANEL * PANEL];
            } else if rows <= 16 {
                // SAFETY: the tiles are configured; both panels have `blocks` blocks of six tiles, `sums` has four
                // tiles.
                unsafe { one_high(a.as_ptr(), b.as_ptr(), blocks, sums) };
            } else {
                // SAFETY: as above.
                unsafe { two_high(a.as_ptr(), b.as_ptr(), blocks, next, sums) };
            }
        }
    }

    /// Two tiles of A by two of B. Tiles 0 to 3 are sums, 4 and 5 a part of A, 6 and 7 a part of B. Prefetching twelve
    /// lines per block covers a panel in eight times 32 rows; a prefetch beyond the end does nothing.
    unsafe fn two_high(a: *const f32, b: *const f32, blocks: usize, next: &[f32], sums: &mut Sums) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{a} + {row}]", "tileloadd tmm5, [{a} + {row} + 1024]",
                "tileloadd tmm6, [{b} + {row} + 4096]", "tileloadd tmm7, [{b} + {row} + 5120]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{next} + 0]", "prefetcht1 [{next} + 64]", "prefetcht1 [{next} + 512]", "prefetcht1 [{next} + 576]", "prefetcht1 [{next} + 640]", "prefetcht1 [{next} + 704]", "prefetcht1 [{next} + 384]", "prefetcht1 [{next} + 448]",
                "tileloadd tmm6, [{b} + {row} + 2048]", "tileloadd tmm7, [{b} + {row} + 3072]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{next} + 512]", "prefetcht1 [{next} + 576]", "prefetcht1 [{next} + 640]", "prefetcht1 [{next} + 704]", "prefetcht1 [{next} + 384]", "prefetcht1 [{next} + 448]",
                "tileloadd tmm4, [{a} + {row} + 2048]", "tileloadd tmm5, [{a} + {row} + 3072]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{next} + 512]", "prefetcht1 [{next} + 576]", "prefetcht1 [{next} + 640]", "prefetcht1 [{next} + 704]",
                "tileloadd tmm6, [{b} + {row}]", "tileloadd tmm7, [{b} + {row} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{next} + 384]", "prefetcht1 [{next} + 448]",
                "tileloadd tmm4, [{a} + {row} + 4096]", "tileloadd tmm5, [{a} + {row} + 5120]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{next} + 512]", "prefetcht1 [{next} + 576]",
                "tileloadd tmm4, [{a} + {row}]", "tileloadd tmm5, [{a} + {row} + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
                "prefetcht1 [{next} + 640]", "prefetcht1 [{next} + 704]",
                "add {a}, 6144", "add {b}, 6144", "add {next}, {step}",
                "dec {blocks}", "jnz 2b",
                "tilestored [{out} + {out_row}], tmm0", "tilestored [{out} + {out_row} + 64], tmm1",
                "tilestored [{out} + {out_row} + 2048], tmm2", "tilestored [{out} + {out_row} + 2112], tmm3",
                a = inout(reg) a => _, b = inout(reg) b => _, blocks = inout(reg) blocks => _,
                next = inout(reg) next.as_ptr() => _, step = in(reg) 4 * next.len() / blocks,
                out = in(reg) sums.0.as_mut_ptr(), row = in(reg) 64usize, out_row = in(reg) 128usize,
                options(nostack),
            );
        }
    }

    /// One tile of A by two of B, in the order of [`two_high`].
    unsafe fn one_high(a: *const f32, b: *const f32, blocks: usize, sums: &mut Sums) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            asm!(
                "tilezero tmm0", "tilezero tmm1",
                "2:",
                "tileloadd tmm4, [{a} + {row}]",
                "tileloadd tmm6, [{b} + {row} + 4096]", "tileloadd tmm7, [{b} + {row} + 5120]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm2, [{b} + {row} + 2048]", "tileloadd tmm3, [{b} + {row} + 3072]",
                "tdpbf16ps tmm0, tmm4, tmm2", "tdpbf16ps tmm1, tmm4, tmm3",
                "tileloadd tmm5, [{a} + {row} + 2048]",
                "tdpbf16ps tmm0, tmm5, tmm2", "tdpbf16ps tmm1, tmm5, tmm3",
                "tileloadd tmm6, [{b} + {row}]", "tileloadd tmm7, [{b} + {row} + 1024]",
                "tdpbf16ps tmm0, tmm5, tmm6", "tdpbf16ps tmm1, tmm5, tmm7",
                "tileloadd tmm5, [{a} + {row} + 4096]",
                "tdpbf16ps tmm0, tmm5, tmm6", "tdpbf16ps tmm1, tmm5, tmm7",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
                "add {a}, 6144", "add {b}, 6144",
                "dec {blocks}", "jnz 2b",
                "tilestored [{out} + {out_row}], tmm0", "tilestored [{out} + {out_row} + 64], tmm1",
                a = inout(reg) a => _, b = inout(reg) b => _, blocks = inout(reg) blocks => _,
                out = in(reg) sums.0.as_mut_ptr(), row = in(reg) 64usize, out_row = in(reg) 128usize,
                options(nostack),
            );
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod unit {
    use super::{Configured, Sums, TileUnit};

    impl TileUnit {
        /// Always `None`: only x86-64 processors have tile registers, and only Linux is supported.
        pub fn try_new() -> Option<TileUnit> {
            None
        }

        pub(in crate::backend::cpu::simd) fn configure(self) -> Configured {
            unreachable!("no tile unit")
        }
    }

    impl Configured {
        pub(super) fn multiply(&self, _a: &[f32], _b: &[f32], _rows: usize, _next: &[f32], _sums: &mut Sums) {
            unreachable!("no tile unit")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::testing::{archs, numbers};

    fn pack(rows: &[f32], depth: usize) -> (Vec<f32>, bool) {
        let mut panel = vec![0.0; panel_floats(depth)];
        let good = Arch::new().dispatch(PackPanel { rows, depth, panel: &mut panel });
        (panel, good)
    }

    #[test]
    fn three_parts_are_the_whole_number() {
        let depth = 75;
        let mut x = numbers(32 * depth, 1);
        for (i, x) in x.iter_mut().enumerate() {
            *x *= 2.0f32.powi(i as i32 % 200 - 100);
        }
        x[..6].copy_from_slice(&[0.0, -0.0, 1.0, 16_777_215.0, -16_777_213.0, 1.701_411_7e38]);
        let (panel, good) = pack(&x, depth);
        assert!(good);
        for n in 0..32 {
            for k in 0..depth {
                assert_eq!(unpacked(&panel, depth, k, n), x[n * depth + k], "{:e}", x[n * depth + k]);
            }
        }
    }

    #[test]
    fn what_has_no_parts_is_found() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 2.0f32.powi(127)] {
            for place in [0, 15, 16, 31, 32, 39] {
                let mut x = vec![1.0; 40];
                x[place] = bad;
                assert!(!pack(&x, 40).1, "{bad} at {place}");
            }
        }
        assert!(pack(&[1.7e38; 40], 40).1);
    }

    /// Six products of parts round less than one product of floats: terms of one sign, so that the omitted products do
    /// not cancel.
    #[test]
    fn what_is_left_out_is_below_a_rounding() {
        for arch in archs().into_iter().filter(|arch| arch.tiles().is_some()) {
            let depth = 256;
            let a: Vec<f32> = numbers(20 * depth, 3).iter().map(|x| x.abs() + 1.0 / 3.0).collect();
            let b: Vec<f32> = numbers(32 * depth, 4).iter().map(|x| x.abs() + 1.0 / 7.0).collect();
            let mut out = vec![0.0; 20 * 32];
            let product = TileProduct {
                a: &a,
                rows: 20,
                depth,
                panels: &pack(&b, depth).0,
                columns: 32,
                bias: &[],
                finish: Finish::default(),
                out: &mut out,
                out_stride: 32,
            };
            product.run(arch, arch.tiles().unwrap()).unwrap();
            for (i, y) in out.iter().enumerate() {
                let terms = |k: usize| f64::from(a[i / 32 * depth + k]) * f64::from(b[i % 32 * depth + k]);
                let sum: f64 = (0..depth).map(terms).sum();
                let error = (f64::from(*y) - sum).abs() / sum;
                // Eight blocks of six products are added in sequence.
                assert!(error < 2.0f64.powi(-23) + 48.0f64.sqrt() * 2.0f64.powi(-24), "{i}: {error:e}");
            }
        }
    }
}
