//! Products whose results have the same bits on every processor: rows of both operands become whole numbers of 24 bits with
//! an exponent, whose products are summed without rounding (`simd/exact.rs`).
//!
//! ```text
//! x [M, K] ── integers of a row, 2^E ──▶ float64, some rows at a time ─┐
//! W [N, K] ── balance b [K], integers, 2^E ──▶ panels of float32 ──────┴─▶ sums ──▶ y [M, N], rounded once
//! ```
//! A balance moves powers of two from the columns of `x` to those of `W`, so that columns in which all weights are small
//! do not lose the bits of their weights.

use std::cell::RefCell;

use rayon::prelude::*;

use super::floats::Floats;
use super::matmul::{by_columns, shares_columns};
use super::panels::Panels;
use super::simd::{Arch, ExactProduct, LARGEST, Standard, Widest};
use super::threads::Team;
use crate::exit::Request;
use crate::process::memory::filled;
use crate::process::threads;
pub use crate::quant::everywhere::NOT_FINITE;
use crate::quant::everywhere::{self, Columns, PLACES, Side};
use crate::{Error, Result};

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

/// A whole number `|x| < 2^51` nearest to `x`, ties to even.
#[inline(always)]
pub fn whole(x: f64) -> f64 {
    const MAGIC: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
    (x + MAGIC) - MAGIC
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

/// Writes the integers `q[k] = round(x[k] 2^(22 - E))` of a row, ties to even, and returns `E`, with which the largest is at
/// most [`LARGEST`]. Subnormal numbers count as 0; a row of zeros has `E = 0`, one with a NaN or an infinity [`NOT_FINITE`].
#[inline(always)]
pub fn integers(row: &[f32], q: &mut [f64]) -> i32 {
    balanced(row, q, inlined!(|_| 0), inlined!(|_| 1.0))
}

/// The same where column `k` counts `2^b[k]` times: `shift(k)` is `b[k] 2^23`, `factor(k)` is `2^b[k]`. As
/// [`everywhere::integers`], compiled for the instruction set.
#[inline(always)]
fn balanced(row: &[f32], q: &mut [f64], shift: impl Fn(usize) -> i32, factor: impl Fn(usize) -> f64) -> i32 {
    /// Mantissas from here on, of 2^23, are halved: rounded, they would be above `LARGEST`.
    const CARRY: i32 = 0x00ff_ffff - 2 * LARGEST;
    let (mut largest, mut most) = (0, i32::MIN);
    for (k, x) in row.iter().enumerate() {
        let bits = (x.to_bits() & 0x7fff_ffff) as i32;
        largest = largest.max(bits);
        most = most.max(if bits < 0x0080_0000 { i32::MIN } else { bits.wrapping_add(shift(k)) });
    }
    if largest >= 0x7f80_0000 {
        q.fill(0.0);
        return NOT_FINITE;
    }
    let exponent = if most == i32::MIN { 0 } else { ((most + CARRY) >> 23) - 127 };
    let scale = power(PLACES - exponent);
    for (k, (x, q)) in row.iter().zip(q).enumerate() {
        let normal = if x.to_bits() & 0x7fff_ffff < 0x0080_0000 { 0.0 } else { *x };
        *q = whole(f64::from(normal) * factor(k) * scale);
    }
    exponent
}

/// A weight `[columns, depth]` as integers in panels, and what the rows of `x` are balanced with.
pub struct Exact {
    panels: Floats,
    /// Of each column of the result, padded with ones.
    scales: Vec<f64>,
    /// The balance of `x`.
    powers: Powers,
    columns: usize,
    depth: usize,
    shape: Panels,
}

/// Whether columns of `x` are balanced with those of the weight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Balance {
    /// By the weight.
    Weight,
    /// All columns count 1.
    None,
}

impl Exact {
    /// Packs the matrix whose row `n` (of `columns`) `read` writes into a slice of `depth`: with a balance it is read twice.
    ///
    /// # Errors
    /// `OutOfMemory`, `Interrupted`, and those of `read`.
    pub fn new(
        arch: Arch,
        by: Balance,
        [columns, depth]: [usize; 2],
        read: impl Fn(usize, &mut [f32]) -> Result<()> + Sync,
    ) -> Result<Self> {
        let widest = Widest::of_wide(arch);
        let (vectors, width) = (widest.vectors, widest.width());
        let shape = Panels { vectors, width, padded: columns.next_multiple_of(width) };
        let mut panels = Floats::zeros(shape.padded * depth, "a weight matrix")?;
        let mut scales = vec![1.0; shape.padded];
        if depth == 0 || columns == 0 {
            return Ok(Exact { panels, scales, powers: Powers::default(), columns, depth, shape });
        }
        let request = Request::current();
        let row_of = |n: usize, row: &mut [f32]| if request.made() { Err(Error::Interrupted) } else { read(n, row) };
        let columns_of = |first: usize| -> Result<Columns> {
            let (mut row, mut largest) = (vec![0.0; depth], Columns::new(depth));
            for n in first..columns.min(first + width) {
                row_of(n, &mut row)?;
                largest.add(0, &row);
            }
            Ok(largest)
        };
        let join = |mut one: Columns, other: Columns| {
            one.join(&other);
            Ok(one)
        };
        let starts = (0..columns).into_par_iter().step_by(width);
        let of_weight = || starts.map(columns_of).try_reduce(|| Columns::new(depth), join);
        let b = match by {
            Balance::Weight => threads::run(of_weight)??.balance(),
            Balance::None => Vec::new(),
        };
        let pack = |(row, q): &mut (Vec<f32>, Vec<i32>),
                    (number, (panel, scales)): (usize, (&mut [f32], &mut [f64]))| {
            let first = number * width;
            for (column, scale) in scales.iter_mut().enumerate().take(columns - first) {
                row_of(first + column, row)?;
                *scale = self::scale(everywhere::integers(row, &b, Side::Weight, q));
                for (line, q) in panel.chunks_exact_mut(width).zip(&*q) {
                    line[column] = *q as f32;
                }
            }
            Ok(())
        };
        let memory = || (vec![0.0f32; depth], vec![0i32; depth]);
        let each = panels.par_chunks_mut(width * depth).zip(scales.par_chunks_mut(width)).enumerate();
        threads::run(|| each.try_for_each_init(memory, pack))??;
        Ok(Exact { panels, scales, powers: Powers::of(&b), columns, depth, shape })
    }

    /// Columns of the result.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Writes the integers of rows of `x`, and their scales.
    fn rows(&self, arch: Arch, x: &[f32], q: &mut [f64], scales: &mut [f64]) {
        let Powers { shifts, factors } = &self.powers;
        arch.vectorized(inlined!(|| {
            let rows = x.chunks_exact(self.depth).zip(q.chunks_exact_mut(self.depth));
            for ((x, q), scale) in rows.zip(scales.iter_mut()) {
                let exponent = if shifts.is_empty() {
                    integers(x, q)
                } else {
                    let (shifts, factors) = (&shifts[..x.len()], &factors[..x.len()]);
                    balanced(x, q, inlined!(|k| shifts[k]), inlined!(|k| factors[k]))
                };
                *scale = self::scale(exponent);
            }
        }));
    }

    /// Computes columns of `out [rows, columns]` from panel `first` on, of rows that are integers.
    fn multiply(&self, arch: Arch, a: &[f64], scales: &[f64], first: usize, out: (&mut [f32], usize)) {
        let column = first * self.shape.width;
        ExactProduct {
            a: (a, self.depth),
            rows: scales.len(),
            depth: self.depth,
            panels: &self.panels[column * self.depth..],
            panel_depth: self.depth,
            vectors: self.shape.vectors,
            columns: out.1,
            row_scales: scales,
            column_scales: &self.scales[column..],
            out,
        }
        .run(arch);
    }
}

/// Integers of `x` in memory at a time: half of a second-level cache.
const HELD: usize = 1 << 15;

thread_local! {
    /// Integers of rows, and their scales, per thread, reused between products.
    static ROWS: RefCell<(Vec<f64>, Vec<f64>)> = const { RefCell::new((Vec::new(), Vec::new())) };
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
    let (columns, depth, width) = (weight.columns, weight.depth, weight.shape.width);
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
        let block = (HELD / depth).clamp(1, 8) * 8;
        return team.try_rows(y, columns, 8, |first, out| {
            let blocks = out.chunks_mut(block * columns).zip((first..).step_by(block));
            ROWS.with_borrow_mut(|(q, scales)| {
                q.resize(q.len().max(block * depth), 0.0);
                scales.resize(scales.len().max(block), 0.0);
                for (out, first) in blocks {
                    let count = out.len() / columns;
                    let (q, scales) = (&mut q[..count * depth], &mut scales[..count]);
                    weight.rows(arch, &x[first * depth..][..count * depth], q, scales);
                    weight.multiply(arch, q, scales, 0, (&mut *out, columns));
                    finish(first, out);
                }
            });
            Ok(())
        });
    }
    let mut q = filled(rows * depth, 0.0f64, "a product")?;
    let mut scales = vec![0.0f64; rows];
    weight.rows(arch, &x[..rows * depth], &mut q, &mut scales);
    by_columns(team, [columns, width], y, |first, out| {
        let _standard = Standard::enter();
        let padded = out.len() / rows;
        weight.multiply(arch, &q, &scales, first, (out, padded));
        Ok(())
    })?;
    finish(0, y);
    Ok(())
}

#[cfg(test)]
mod tests;
