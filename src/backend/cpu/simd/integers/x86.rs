//! The byte products of x86-64 processors.

#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::digits::{DigitRows, DigitSums};
use super::tiles::{ByteTiles, TILE_LINES};
use super::{ByteRows, Bytes, INTEGER_PANEL, Line, Panels, Sums, Word};

/// Rows from which on tiles of sixteen, some of them empty, are faster than vectors.
const TILED_ROWS: usize = 4;

/// Proof that the processor has instructions of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteUnit(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Tile registers (AMX-INT8), and vectors for few rows.
    Tiles(ByteTiles, Avx512Vnni),
    Avx512Vnni(Avx512Vnni),
    AvxVnni(AvxVnni),
    Avx2(Avx2),
}

impl ByteUnit {
    /// Every unit of this processor, the fastest first.
    pub fn all() -> Vec<ByteUnit> {
        let mut all = Vec::new();
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            let tiles = ByteTiles::try_new().map(|tiles| Kind::Tiles(tiles, Avx512Vnni(())));
            all.extend(tiles.into_iter().chain([Kind::Avx512Vnni(Avx512Vnni(()))]));
        }
        if is_x86_feature_detected!("avx2") {
            let vnni = is_x86_feature_detected!("avxvnni");
            all.extend(vnni.then_some(Kind::AvxVnni(AvxVnni(()))).into_iter().chain([Kind::Avx2(Avx2(()))]));
        }
        all.into_iter().map(ByteUnit).collect()
    }

    /// Whether it has more than ten times the throughput of the vector unit in float64.
    pub fn has_tiles(self) -> bool {
        matches!(self.0, Kind::Tiles(..))
    }

    /// Lines of a panel of so many terms.
    pub fn lines(self, depth: usize) -> usize {
        match self.0 {
            Kind::Tiles(..) => depth.div_ceil(4).next_multiple_of(TILE_LINES),
            _ => depth.div_ceil(4),
        }
    }

    pub(super) fn multiply_digits(
        self,
        rows: &DigitRows<'_>,
        panels: &[Line],
        take: impl FnMut(usize, usize, &DigitSums),
    ) {
        match self.0 {
            Kind::Tiles(unit, _) => unit.multiply_digits(rows, panels, take),
            _ => rows.each_multiplied(self, panels, take),
        }
    }

    pub(super) fn multiply(self, rows: &ByteRows<'_>, panels: &Panels<'_>, take: impl FnMut(usize, usize, &[i32])) {
        match self.0 {
            Kind::Tiles(unit, _) if rows.starts.len() >= TILED_ROWS => unit.multiply(rows, panels, take),
            Kind::Tiles(_, unit) | Kind::Avx512Vnni(unit) => panels.multiply(unit, rows, take),
            Kind::AvxVnni(unit) => panels.multiply(unit, rows, take),
            Kind::Avx2(unit) => panels.multiply(unit, rows, take),
        }
    }
}

/// Sixteen sums at a time of four products each of an unsigned and a signed byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Avx512Vnni(());

impl Bytes for Avx512Vnni {
    type Term = i8;
    const COLUMNS: usize = INTEGER_PANEL;

    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn multiply<const ROWS: usize>(
        self,
        rows: [&[Word<Self>]; ROWS],
        starts: [i32; ROWS],
        panel: &[Line],
        _: usize,
        sums: &mut Sums,
    ) {
        let mut chains = [[_mm512_setzero_si512(); 4]; ROWS];
        for (chains, start) in chains.iter_mut().zip(starts) {
            *chains = [_mm512_set1_epi32(start); 4];
        }
        for (k, line) in panel.iter().enumerate() {
            for (vector, line) in line.0.iter().enumerate() {
                // SAFETY: a line is aligned, and has as many bytes as four vectors.
                let w = unsafe { _mm512_load_si512(line.as_ptr().cast()) };
                for (chains, row) in chains.iter_mut().zip(rows) {
                    chains[vector] = _mm512_dpbusd_epi32(chains[vector], w, _mm512_set1_epi32(bytemuck::cast(row[k])));
                }
            }
        }
        for (sums, chains) in sums.iter_mut().zip(chains) {
            for (sums, chain) in sums.chunks_exact_mut(16).zip(chains) {
                // SAFETY: sixteen sums.
                unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), chain) };
            }
        }
    }
}

/// The same with eight sums at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AvxVnni(());

impl Bytes for AvxVnni {
    type Term = i8;
    const COLUMNS: usize = 16;

    #[target_feature(enable = "avx2,avxvnni")]
    unsafe fn multiply<const ROWS: usize>(
        self,
        rows: [&[Word<Self>]; ROWS],
        starts: [i32; ROWS],
        panel: &[Line],
        column: usize,
        sums: &mut Sums,
    ) {
        let mut chains = [[_mm256_setzero_si256(); 2]; ROWS];
        for (chains, start) in chains.iter_mut().zip(starts) {
            *chains = [_mm256_set1_epi32(start); 2];
        }
        for (k, line) in panel.iter().enumerate() {
            let bytes = line.columns::<16>(column).as_chunks::<32>().0;
            // SAFETY: each vector is read from 32 bytes.
            let w: [__m256i; 2] = std::array::from_fn(|i| unsafe { _mm256_loadu_si256(bytes[i].as_ptr().cast()) });
            for (chains, row) in chains.iter_mut().zip(rows) {
                let x = _mm256_set1_epi32(bytemuck::cast(row[k]));
                for (chain, w) in chains.iter_mut().zip(w) {
                    *chain = _mm256_dpbusd_avx_epi32(*chain, w, x);
                }
            }
        }
        for (sums, chains) in sums.iter_mut().zip(chains) {
            for (sums, chain) in sums[column..column + 16].chunks_exact_mut(8).zip(chains) {
                // SAFETY: eight sums.
                unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), chain) };
            }
        }
    }
}

/// Products of 16-bit numbers, to which bytes are widened: products of bytes themselves would saturate. A sum is made of
/// two, of the first and of the last two terms of each four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Avx2(());

impl Bytes for Avx2 {
    type Term = i16;
    const COLUMNS: usize = 8;

    #[target_feature(enable = "avx2")]
    unsafe fn multiply<const ROWS: usize>(
        self,
        rows: [&[Word<Self>]; ROWS],
        starts: [i32; ROWS],
        panel: &[Line],
        column: usize,
        sums: &mut Sums,
    ) {
        let mut chains = [[_mm256_setzero_si256(); 2]; ROWS];
        for (k, line) in panel.iter().enumerate() {
            let bytes = line.columns::<8>(column).as_chunks::<16>().0;
            let w: [__m256i; 2] = std::array::from_fn(|i| {
                // SAFETY: each vector is read from 16 bytes.
                _mm256_cvtepu8_epi16(unsafe { _mm_loadu_si128(bytes[i].as_ptr().cast()) })
            });
            for (chains, row) in chains.iter_mut().zip(rows) {
                let x = _mm256_set1_epi64x(bytemuck::cast(row[k]));
                for (chain, w) in chains.iter_mut().zip(w) {
                    *chain = _mm256_add_epi32(*chain, _mm256_madd_epi16(w, x));
                }
            }
        }
        for ((sums, [low, high]), start) in sums.iter_mut().zip(chains).zip(starts) {
            // Columns 0, 1, 4, 5, 2, 3, 6, 7.
            let pairs = _mm256_hadd_epi32(low, high);
            let sum = _mm256_add_epi32(_mm256_permute4x64_epi64(pairs, 0b11_01_10_00), _mm256_set1_epi32(start));
            let sums = &mut sums[column..column + 8];
            // SAFETY: eight sums.
            unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), sum) };
        }
    }
}

impl Line {
    /// The bytes of `N` columns.
    #[inline(always)]
    fn columns<const N: usize>(&self, first: usize) -> &[u8] {
        &self.0.as_flattened()[4 * first..][..4 * N]
    }
}
