//! The processor's tile instructions.
#![allow(unsafe_code)]

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
