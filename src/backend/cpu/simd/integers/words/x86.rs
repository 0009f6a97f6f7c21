//! The word products of x86-64 processors: sixteen sums at a time of two products each.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Pair, Parts, ROWS, WORD_PANEL, WordLine, WordSums};

/// Vectors of a panel.
const VECTORS: usize = WORD_PANEL / 16;

/// Proof that the processor has AVX-512 VNNI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WordUnit(());

/// Pairs of a vector.
type Vector = [Pair; 16];

/// Sums of the columns of a panel.
type Chains = [__m512i; VECTORS];

impl WordUnit {
    /// The unit, if the processor has it.
    pub fn try_new() -> Option<WordUnit> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni");
        has.then_some(WordUnit(()))
    }

    /// Adds the products of rows, each in three parts, with the high and the low halves of columns, equally many pairs of all;
    /// meanwhile fetches the first lines of what is next.
    pub(super) fn add<const R: usize>(
        self,
        rows: &[[&[Pair]; 3]; R],
        (high, low): (&[WordLine], &[WordLine]),
        next: &[WordLine],
        parts: &mut Parts,
    ) {
        let [of_high, of_low, of_both] = &mut parts.0;
        // SAFETY: the unit proves that the processor has the instructions.
        unsafe {
            // Few rows leave registers for all parts, and need as many chains to fill the pipelines.
            if R <= 2 {
                return together(rows, high, low, &mut parts.0);
            }
            // An eighth of what the three read: the tiles of eight times eight rows fetch a panel.
            let next = next.as_ptr().cast::<Vector>();
            let third = |part: usize| next.wrapping_add(part * high.len() / 4);
            one::<R, false>(rows.each_ref().map(|row| row[0]), high, high, third(0), of_high);
            one::<R, false>(rows.each_ref().map(|row| row[1]), low, low, third(1), of_low);
            one::<R, true>(rows.each_ref().map(|row| row[2]), high, low, third(2), of_both);
        }
    }

    /// Moves the sums of words to those of 64 bits.
    pub(super) fn join<const R: usize>(self, parts: &mut Parts, sums: &mut WordSums) {
        // SAFETY: the unit proves that the processor has the instructions.
        unsafe { join::<R>(parts, sums) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn join<const R: usize>(parts: &mut Parts, sums: &mut WordSums) {
    super::join::<R>(parts, sums);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn loaded(sums: &[i32; WORD_PANEL]) -> Chains {
    let mut chains = [_mm512_setzero_si512(); VECTORS];
    for (chain, sums) in chains.iter_mut().zip(sums.as_chunks::<16>().0) {
        // SAFETY: sixteen sums.
        *chain = unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) };
    }
    chains
}

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn store(chains: Chains, sums: &mut [i32; WORD_PANEL]) {
    for (sums, chain) in sums.as_chunks_mut::<16>().0.iter_mut().zip(chains) {
        // SAFETY: sixteen sums.
        unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), chain) };
    }
}

/// A vector of a line.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn vector(line: &WordLine, j: usize) -> __m512i {
    // SAFETY: a line is aligned, and has as many bytes as its vectors.
    unsafe { _mm512_load_si512(line.0.as_chunks::<16>().0[j].as_ptr().cast()) }
}

/// One part of rows by the high words of columns, or by the sums of high and low ones. A vector of what is next is fetched with
/// every fourth pair: all at once they would wait for one another.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn one<const R: usize, const BOTH: bool>(
    rows: [&[Pair]; R],
    high: &[WordLine],
    low: &[WordLine],
    next: *const Vector,
    sums: &mut [[i32; WORD_PANEL]; ROWS],
) {
    let (count, low) = (high.len(), &low[..high.len()]);
    let rows = rows.map(|row| &row[..count]);
    let mut chains = [[_mm512_setzero_si512(); VECTORS]; R];
    for (chains, sums) in chains.iter_mut().zip(&*sums) {
        *chains = loaded(sums);
    }
    for k in 0..count {
        // SAFETY: the instruction reads nothing that could be seen, wherever it points; newer compilers know that it is safe.
        #[allow(unused_unsafe)]
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(next.wrapping_add(k / 4).cast())
        };
        let mut w = [_mm512_setzero_si512(); VECTORS];
        for (j, w) in w.iter_mut().enumerate() {
            *w = vector(&high[k], j);
            if BOTH {
                *w = _mm512_add_epi16(*w, vector(&low[k], j));
            }
        }
        for (chains, row) in chains.iter_mut().zip(rows) {
            let x = _mm512_set1_epi32(bytemuck::cast(row[k]));
            for (chain, w) in chains.iter_mut().zip(w) {
                *chain = _mm512_dpwssd_epi32(*chain, w, x);
            }
        }
    }
    for (chains, sums) in chains.into_iter().zip(sums) {
        store(chains, sums);
    }
}

/// All parts of rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn together<const R: usize>(
    rows: &[[&[Pair]; 3]; R],
    high: &[WordLine],
    low: &[WordLine],
    sums: &mut [[[i32; WORD_PANEL]; ROWS]; 3],
) {
    let (count, low) = (high.len(), &low[..high.len()]);
    let rows = rows.map(|row| row.map(|part| &part[..count]));
    let mut chains = [[[_mm512_setzero_si512(); VECTORS]; 3]; R];
    for (i, chains) in chains.iter_mut().enumerate() {
        for (chains, sums) in chains.iter_mut().zip(&*sums) {
            *chains = loaded(&sums[i]);
        }
    }
    for k in 0..count {
        for j in 0..VECTORS {
            let (high, low) = (vector(&high[k], j), vector(&low[k], j));
            let w = [high, low, _mm512_add_epi16(high, low)];
            for (chains, row) in chains.iter_mut().zip(&rows) {
                for part in 0..3 {
                    let x = _mm512_set1_epi32(bytemuck::cast(row[part][k]));
                    chains[part][j] = _mm512_dpwssd_epi32(chains[part][j], w[part], x);
                }
            }
        }
    }
    for (i, chains) in chains.into_iter().enumerate() {
        for (chains, sums) in chains.into_iter().zip(&mut *sums) {
            store(chains, &mut sums[i]);
        }
    }
}
