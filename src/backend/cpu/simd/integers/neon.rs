//! The byte products of ARM processors (the dot products of ARMv8.2).
#![allow(unsafe_code)]

use std::arch::aarch64::*;
use std::arch::asm;

use super::digits::{DigitRows, DigitSums};
use super::{ByteRows, Bytes, Line, Panels, Sums, Word};

/// Proof that the processor has the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteUnit(());

impl ByteUnit {
    /// The unit, if the processor has it.
    pub fn all() -> Vec<ByteUnit> {
        std::arch::is_aarch64_feature_detected!("dotprod").then_some(ByteUnit(())).into_iter().collect()
    }

    /// Whether it has more than ten times the throughput of the vector unit in float64.
    pub fn has_tiles(self) -> bool {
        false
    }

    /// Lines of a panel of so many terms.
    pub fn lines(self, depth: usize) -> usize {
        depth.div_ceil(4)
    }

    pub(super) fn multiply_digits(
        self,
        rows: &DigitRows<'_>,
        panels: &[Line],
        take: impl FnMut(usize, usize, &DigitSums),
    ) {
        rows.each_multiplied(self, panels, take);
    }

    pub(super) fn multiply(self, rows: &ByteRows<'_>, panels: &Panels<'_>, take: impl FnMut(usize, usize, &[i32])) {
        panels.multiply(self, rows, take);
    }
}

/// Both factors are signed: 128 is taken from the weights again, and sums start at zero.
impl Bytes for ByteUnit {
    type Term = i8;
    const COLUMNS: usize = 16;

    #[target_feature(enable = "neon,dotprod")]
    unsafe fn multiply<const ROWS: usize>(
        self,
        rows: [&[Word<Self>]; ROWS],
        _: [i32; ROWS],
        panel: &[Line],
        column: usize,
        sums: &mut Sums,
    ) {
        let mut chains = [[vdupq_n_s32(0); 4]; ROWS];
        for (k, line) in panel.iter().enumerate() {
            let bytes = line.0.as_flattened()[4 * column..][..64].as_chunks::<16>().0;
            let w: [int8x16_t; 4] = std::array::from_fn(|i| {
                // SAFETY: each vector is read from 16 bytes.
                vreinterpretq_s8_u8(veorq_u8(unsafe { vld1q_u8(bytes[i].as_ptr()) }, vdupq_n_u8(128)))
            });
            for (chains, row) in chains.iter_mut().zip(rows) {
                let x = vreinterpretq_s8_s32(vdupq_n_s32(bytemuck::cast(row[k])));
                for (chain, w) in chains.iter_mut().zip(w) {
                    // SAFETY: an instruction on registers; the function's features have it (its intrinsic is unstable).
                    unsafe {
                        asm!("sdot {chain:v}.4s, {w:v}.16b, {x:v}.16b", chain = inout(vreg) *chain, w = in(vreg) w,
                            x = in(vreg) x, options(pure, nomem, nostack, preserves_flags));
                    }
                }
            }
        }
        for (sums, chains) in sums.iter_mut().zip(chains) {
            for (sums, chain) in sums[column..column + 16].chunks_exact_mut(4).zip(chains) {
                // SAFETY: four sums.
                unsafe { vst1q_s32(sums.as_mut_ptr(), chain) };
            }
        }
    }
}
