//! Products whose results have the same bits on every processor: rows of both operands become whole numbers of 24 bits with
//! an exponent, whose products are summed without rounding: in float64 (`simd/exact.rs`), on tile registers by digits
//! (`simd/integers/digits.rs`), on AVX-512 VNNI by words (`simd/integers/words.rs`).
//!
//! ```text
//! x [M, K] ── integers of a row, 2^E ──▶ float64, digits or words, some rows at a time ──┐
//! W [N, K] ── balance b [K], integers, 2^E ──▶ panels of float32, of digits or of words ─┴─▶ sums ──▶ y [M, N], rounded once
//! ```
//! A balance moves powers of two from the columns of `x` to those of `W`, so that columns in which all weights are small
//! do not lose the bits of their weights.

mod rows;
mod weight;

use std::cell::RefCell;

use rows::ExactRows;
use weight::Form;
pub use weight::{Balance, Exact};

use super::matmul::{by_columns, shares_columns};
use super::simd::{Arch, LARGEST, Standard, TILED};
use super::threads::Team;
use crate::Result;
use crate::process::memory::filled;
pub use crate::quant::everywhere::NOT_FINITE;
use crate::quant::everywhere::PLACES;

/// `2^exponent`; NaN for [`NOT_FINITE`]. Exponents beyond those of any sum stand for the next of them.
#[inline(always)]
pub fn power(exponent: i32) -> f64 {
    let power = f64::from_bits(((exponent.clamp(-1000, 1000) + 1023) as u64) << 52);
    if exponent == NOT_FINITE { f64::NAN } else { power }
}

/// The factor of the integers of a row with an exponent.
#[inline(always)]
pub fn scale(exponent: i32) -> f64 {
    power(if exponent == NOT_FINITE { NOT_FINITE } else { exponent - PLACES })
}

/// 1.5 * 2^52: adding it to `|x| < 2^51` leaves the nearest whole number, ties to even, in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// A whole number `|x| < 2^51` nearest to `x`, ties to even.
#[inline(always)]
pub fn whole(x: f64) -> f64 {
    (x + MAGIC) - MAGIC
}

/// The same of 32 bits.
#[inline(always)]
fn whole_bits(x: f64) -> i32 {
    (x + MAGIC).to_bits() as i32
}

/// Powers of two by which columns count.
#[derive(Default)]
struct Powers {
    /// Exponents, as they are added to a float's bits.
    shifts: Vec<i32>,
    factors: Vec<f64>,
}

impl Powers {
    fn of(balance: &[i32]) -> Self {
        let powers = balance.iter().map(|b| power(*b));
        Powers { shifts: balance.iter().map(|b| b << 23).collect(), factors: powers.collect() }
    }
}

/// Bits of the least normal number.
const LEAST_NORMAL: i32 = 0x0080_0000;

#[inline(always)]
fn magnitude(x: f32) -> i32 {
    (x.to_bits() & 0x7fff_ffff) as i32
}

/// The largest that `of` makes of the magnitudes' bits and of what is beside them, `least` if there is none.
#[inline(always)]
fn most<T: Copy>(row: &[f32], beside: &[T], least: i32, of: impl Fn(i32, T) -> i32) -> i32 {
    const LANES: usize = 32;
    let ((rows, row), (besides, beside)) = (row.as_chunks::<LANES>(), beside.as_chunks::<LANES>());
    let mut lanes = [least; LANES];
    for (row, beside) in rows.iter().zip(besides) {
        for (lane, most) in lanes.iter_mut().enumerate() {
            *most = of(magnitude(row[lane]), beside[lane]).max(*most);
        }
    }
    let rest = row.iter().zip(beside).fold(least, |most, (x, beside)| of(magnitude(*x), *beside).max(most));
    lanes.into_iter().fold(rest, i32::max)
}

/// Writes the integers `q[k] = round(x[k] 2^(22 - E))` of a row, ties to even, and returns `E`, with which the largest is at
/// most [`LARGEST`]. Subnormal numbers count as 0; a row of zeros has `E = 0`, one with a NaN or an infinity [`NOT_FINITE`].
#[inline(always)]
pub fn integers(row: &[f32], q: &mut [f64]) -> i32 {
    integers_of(row, None, q, inlined!(|x| whole(x)))
}

/// The same, as [`everywhere::integers`](crate::quant::everywhere::integers), with column `k` counting `2^b[k]` times, and each
/// made by `of` from what is to be rounded; compiled for the instruction set.
#[inline(always)]
fn integers_of<Q: Copy + Default>(row: &[f32], powers: Option<&Powers>, q: &mut [Q], of: impl Fn(f64) -> Q) -> i32 {
    /// Mantissas from here on, of 2^23, are halved: rounded, they would be above `LARGEST`.
    const CARRY: i32 = 0x00ff_ffff - 2 * LARGEST;
    let largest = most(row, row, 0, inlined!(|bits, _| bits));
    let most = match powers {
        None if largest < LEAST_NORMAL => i32::MIN,
        None => largest,
        Some(Powers { shifts, .. }) => {
            let shifted =
                inlined!(|bits: i32, shift: i32| if bits < LEAST_NORMAL { i32::MIN } else { bits.wrapping_add(shift) });
            most(row, shifts, i32::MIN, shifted)
        }
    };
    if largest >= 0x7f80_0000 {
        q.fill(Q::default());
        return NOT_FINITE;
    }
    let exponent = if most == i32::MIN { 0 } else { ((most + CARRY) >> 23) - 127 };
    let scale = power(PLACES - exponent);
    let normal = inlined!(|x: f32| f64::from(if magnitude(x) < LEAST_NORMAL { 0.0 } else { x }));
    match powers {
        None => row.iter().zip(q).for_each(inlined!(|(x, q)| *q = of(normal(*x) * scale))),
        Some(Powers { factors, .. }) => {
            row.iter().zip(q).zip(factors).for_each(inlined!(|((x, q), factor)| *q = of(normal(*x) * factor * scale)));
        }
    }
    exponent
}

/// Bytes of digits of `x` in memory at a time: a quarter of a second-level cache.
const HELD_DIGITS: usize = 1 << 19;

/// Integers of `x` in memory at a time: half of a second-level cache.
const HELD: usize = 1 << 15;

thread_local! {
    /// Rows, per thread, whose memory is reused between products.
    static ROWS: RefCell<ExactRows> = RefCell::default();
}

/// `y [M, N] = x [M, K] W^T`; `finish` gets rows of it that are done, and the number of their first.
///
/// # Errors
/// `OutOfMemory`, `Interrupted`.
pub fn multiply(
    arch: Arch,
    team: Team,
    x: &[f32],
    weight: &Exact,
    finish: impl Fn(usize, &mut [f32]) + Sync,
    y: &mut [f32],
) -> Result<()> {
    let (columns, depth, width) = (weight.columns, weight.depth, weight.width);
    if y.is_empty() {
        return Ok(());
    }
    let rows = y.len() / columns;
    if depth == 0 {
        y.fill(0.0);
        finish(0, y);
        return Ok(());
    }
    if !shares_columns(team, rows, columns.div_ceil(width)) {
        let (least, block) = match weight.form {
            Form::Floats { .. } | Form::Words { .. } => (8, (HELD / depth).clamp(1, 8) * 8),
            Form::Digits { bytes, .. } => (TILED, (HELD_DIGITS / (3 * bytes * TILED)).clamp(1, 8) * TILED),
        };
        return team.try_rows(y, columns, least, |first, out| {
            let blocks = out.chunks_mut(block * columns).zip((first..).step_by(block));
            ROWS.with_borrow_mut(|held| {
                for (out, first) in blocks {
                    let count = out.len() / columns;
                    weight.rows(arch, &x[first * depth..][..count * depth], held);
                    weight.multiply(arch, held, 0, (&mut *out, columns));
                    finish(first, out);
                }
            });
            Ok(())
        });
    }
    let mut held = ExactRows::default();
    match weight.form {
        Form::Floats { .. } => held.q = filled(rows * depth, 0.0, "a product")?,
        Form::Digits { bytes, .. } => held.digits = filled(rows * 3 * bytes, 0, "a product")?,
        Form::Words { pairs, .. } => held.words = filled(rows * 3 * pairs, [0; 2], "a product")?,
    }
    weight.rows(arch, &x[..rows * depth], &mut held);
    by_columns(team, [columns, width], y, |first, out| {
        let _standard = Standard::enter();
        let padded = out.len() / rows;
        weight.multiply(arch, &held, first, (out, padded));
        Ok(())
    })?;
    finish(0, y);
    Ok(())
}

#[cfg(test)]
mod tests;
