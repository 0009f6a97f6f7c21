//! Products of bytes on the processor's tile registers (AMX-INT8).
#![allow(unsafe_code)]

use std::arch::asm;

use super::super::tiles::{Configured, TileUnit};
use super::digits::{DigitRows, DigitSums, TILED, neighbours};
use super::{ByteRows, INTEGER_PANEL, Line, Panels};

/// Lines of a panel that a tile holds: 64 terms.
pub const TILE_LINES: usize = 16;

/// 64 terms of 16 rows.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Tile([[i8; 64]; 16]);

impl Default for Tile {
    fn default() -> Self {
        Tile([[0; 64]; 16])
    }
}

/// Tile registers that multiply 16 rows of 64 signed bytes with as many columns of unsigned ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteTiles(TileUnit);

impl ByteTiles {
    pub fn try_new() -> Option<ByteTiles> {
        let unit = TileUnit::try_new()?;
        // Leaf 7: AMX-INT8.
        let has = std::arch::x86_64::__cpuid_count(7, 0).edx & (1 << 25) != 0;
        has.then_some(ByteTiles(unit))
    }

    /// Sums as of [`super::multiply_integers`].
    pub fn multiply(self, rows: &ByteRows<'_>, panels: &Panels<'_>, mut take: impl FnMut(usize, usize, &[i32])) {
        // [16 rows][block of 64 terms][16 x 64 bytes], padded with zeros.
        let blocks = panels.part.len() / TILE_LINES;
        let mut tiles = vec![Tile::default(); rows.starts.len().div_ceil(16) * blocks];
        for (m, row) in rows.each().enumerate() {
            for (tile, part) in tiles[m / 16 * blocks..].iter_mut().zip(row.chunks(64)) {
                tile.0[m % 16][..part.len()].copy_from_slice(part);
            }
        }
        let configured = self.0.configure();
        let mut sums = [[0i32; INTEGER_PANEL]; TILED];
        for (panel, column, width) in panels.each() {
            for (number, tiles) in tiles.chunks(2 * blocks).enumerate() {
                let (low, high) = tiles.split_at(blocks);
                multiply(&configured, [low, high], panel, &mut sums);
                let first = number * TILED;
                for ((row, start), sums) in (first..).zip(&rows.starts[first..]).zip(&mut sums) {
                    sums.iter_mut().for_each(|sum| *sum += start);
                    take(row, column, &sums[..width]);
                }
            }
        }
    }
}

impl ByteTiles {
    /// Sums as of [`super::multiply_digits`], each from zero.
    pub fn multiply_digits(
        self,
        rows: &DigitRows<'_>,
        panels: &[Line],
        mut take: impl FnMut(usize, usize, &DigitSums),
    ) {
        // [16 rows][digit][block of 64 terms][16 x 64 bytes]
        let blocks = rows.bytes / 64;
        let of_rows = 3 * blocks;
        let mut tiles = vec![Tile::default(); rows.count().div_ceil(16) * of_rows];
        for (m, row) in rows.digits.chunks_exact(3 * rows.bytes).enumerate() {
            for (tile, part) in tiles[m / 16 * of_rows..].iter_mut().zip(row.chunks_exact(64)) {
                tile.0[m % 16].copy_from_slice(part);
            }
        }
        let configured = self.0.configure();
        let mut sums = DigitSums::default();
        for (number, panel) in panels.chunks_exact(of_rows * TILE_LINES).enumerate() {
            for (group, tiles) in tiles.chunks(2 * of_rows).enumerate() {
                for (weight, sums) in sums.0.iter_mut().enumerate() {
                    let [terms, part] = neighbours(weight, blocks);
                    let (low, high) = tiles.split_at(of_rows);
                    let high = high.get(terms.clone()).unwrap_or_default();
                    let part = &panel[TILE_LINES * part.start..TILE_LINES * part.end];
                    multiply(&configured, [&low[terms], high], part, sums);
                }
                take(group * TILED, number, &sums);
            }
        }
    }
}

/// The sums of 16 or 32 rows with a panel; the second sixteen may be missing.
fn multiply(_: &Configured, [low, high]: [&[Tile]; 2], panel: &[Line], sums: &mut [[i32; INTEGER_PANEL]; TILED]) {
    let blocks = panel.len() / TILE_LINES;
    assert!(blocks > 0 && panel.len().is_multiple_of(TILE_LINES) && low.len() == blocks);
    assert!(high.is_empty() || high.len() == blocks);
    for half in 0..2 {
        let b = panel.as_ptr().cast::<u8>().wrapping_add(128 * half);
        let out = sums.as_mut_ptr().cast::<i32>().wrapping_add(32 * half);
        let (a, rest) = (low.as_ptr(), high.as_ptr());
        // SAFETY: the tiles are configured; each tile of rows and of the panel has `blocks` blocks, and `sums` four
        // tiles from `out` on, 256 bytes a row.
        unsafe { if high.is_empty() { one_high(a, b, blocks, out) } else { two_high(a, rest, b, blocks, out) } }
    }
}

/// Two tiles of rows by two of columns. Tiles 0 to 3 are sums.
unsafe fn two_high(low: *const Tile, high: *const Tile, b: *const u8, blocks: usize, out: *mut i32) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        asm!(
            "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
            "2:",
            "tileloadd tmm4, [{low} + {row}]", "tileloadd tmm6, [{b} + {line}]",
            "tdpbsud tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {line} + 64]",
            "tdpbsud tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{high} + {row}]",
            "tdpbsud tmm2, tmm5, tmm6", "tdpbsud tmm3, tmm5, tmm7",
            "add {low}, 1024", "add {high}, 1024", "add {b}, 4096",
            "dec {blocks}", "jnz 2b",
            "tilestored [{out} + {line}], tmm0", "tilestored [{out} + {line} + 64], tmm1",
            "tilestored [{out} + {line} + 4096], tmm2", "tilestored [{out} + {line} + 4160], tmm3",
            low = inout(reg) low => _, high = inout(reg) high => _, b = inout(reg) b => _,
            blocks = inout(reg) blocks => _, out = in(reg) out, row = in(reg) 64usize, line = in(reg) 256usize,
            options(nostack),
        );
    }
}

/// One tile of rows by two of columns.
unsafe fn one_high(a: *const Tile, b: *const u8, blocks: usize, out: *mut i32) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        asm!(
            "tilezero tmm0", "tilezero tmm1",
            "2:",
            "tileloadd tmm4, [{a} + {row}]", "tileloadd tmm6, [{b} + {line}]",
            "tdpbsud tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{b} + {line} + 64]",
            "tdpbsud tmm1, tmm4, tmm7",
            "add {a}, 1024", "add {b}, 4096",
            "dec {blocks}", "jnz 2b",
            "tilestored [{out} + {line}], tmm0", "tilestored [{out} + {line} + 64], tmm1",
            a = inout(reg) a => _, b = inout(reg) b => _, blocks = inout(reg) blocks => _,
            out = in(reg) out, row = in(reg) 64usize, line = in(reg) 256usize,
            options(nostack),
        );
    }
}
