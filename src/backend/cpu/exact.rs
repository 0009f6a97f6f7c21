//! Products whose results have the same bits on every processor: rows of both operands become whole numbers of 24 bits with
//! an exponent, whose products are summed without rounding (`simd/exact.rs`; `simd/integers/digits.rs` on tile registers).
//!
//! ```text
//! x [M, K] ── integers of a row, 2^E ──▶ float64, or digits, some rows at a time ──┐
//! W [N, K] ── balance b [K], integers, 2^E ──▶ panels of float32, or of digits ────┴─▶ sums ──▶ y [M, N], rounded once
//! ```
//! A balance moves powers of two from the columns of `x` to those of `W`, so that columns in which all weights are small
//! do not lose the bits of their weights.

use std::cell::RefCell;

use rayon::prelude::*;

use super::floats::Floats;
use super::matmul::{by_columns, shares_columns};
use super::simd::{
    Arch, ByteUnit, DigitRows, ExactProduct, INTEGER_PANEL, LARGEST, Line, Standard, TILED, Widest, digit_panel,
    digits_of, multiply_digits, scaled,
};
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

/// How the integers of both operands are stored.
enum Form {
    Floats { panels: Floats, vectors: usize },
    Digits { panels: Vec<Line>, unit: ByteUnit, bytes: usize },
}

/// A weight `[columns, depth]` as integers in panels, and what the rows of `x` are balanced with.
pub struct Exact {
    form: Form,
    /// Of each column of the result, padded with ones.
    scales: Vec<f64>,
    /// The balance of `x`.
    powers: Powers,
    columns: usize,
    depth: usize,
    /// Columns of a panel.
    width: usize,
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
        Exact::on(arch, arch.bytes().filter(|unit| unit.has_tiles()), by, [columns, depth], read)
    }

    /// The same in digits for a unit, if there is one and it holds their sums.
    fn on(
        arch: Arch,
        unit: Option<ByteUnit>,
        by: Balance,
        [columns, depth]: [usize; 2],
        read: impl Fn(usize, &mut [f32]) -> Result<()> + Sync,
    ) -> Result<Self> {
        let widest = Widest::of_wide(arch);
        let in_digits = unit.and_then(|unit| Some((unit, unit.digit_bytes(depth)?)));
        let width = if in_digits.is_some() { INTEGER_PANEL } else { widest.width() };
        let padded = columns.next_multiple_of(width);
        let mut form = match in_digits {
            Some((unit, bytes)) => {
                let lines = padded / width * 3 * unit.lines(depth);
                Form::Digits { panels: filled(lines, Line::default(), "a weight matrix")?, unit, bytes }
            }
            None => Form::Floats { panels: Floats::zeros(padded * depth, "a weight matrix")?, vectors: widest.vectors },
        };
        let mut scales = vec![1.0; padded];
        if depth == 0 || columns == 0 {
            return Ok(Exact { form, scales, powers: Powers::default(), columns, depth, width });
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
        // The integers of a panel's columns, one after the other, and their factors.
        let integers_of = |row: &mut [f32], q: &mut [i32], number: usize, scales: &mut [f64]| -> Result<usize> {
            let first = number * width;
            let own = q.chunks_exact_mut(depth).zip(scales).take(columns - first);
            for (column, (q, scale)) in own.enumerate() {
                row_of(first + column, row)?;
                *scale = self::scale(everywhere::integers(row, &b, Side::Weight, q));
            }
            Ok(width.min(columns - first))
        };
        let memory = || (vec![0.0f32; depth], vec![0i32; width * depth]);
        let each = scales.par_chunks_mut(width).enumerate();
        match &mut form {
            Form::Floats { panels, .. } => {
                let each = panels.par_chunks_mut(width * depth).zip(each);
                threads::run(|| {
                    each.try_for_each_init(memory, |(row, q), (panel, (number, scales))| {
                        let count = integers_of(row, q, number, scales)?;
                        for (column, q) in q.chunks_exact(depth).take(count).enumerate() {
                            for (line, q) in panel.chunks_exact_mut(width).zip(q) {
                                line[column] = *q as f32;
                            }
                        }
                        Ok(())
                    })
                })??;
            }
            Form::Digits { panels, unit, .. } => {
                let each = panels.par_chunks_mut(3 * unit.lines(depth)).zip(each);
                threads::run(|| {
                    each.try_for_each_init(memory, |(row, q), (panel, (number, scales))| {
                        let count = integers_of(row, q, number, scales)?;
                        digit_panel(&q[..count * depth], depth, panel);
                        Ok(())
                    })
                })??;
            }
        }
        Ok(Exact { form, scales, powers: Powers::of(&b), columns, depth, width })
    }

    /// Columns of the result.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The integers of rows of `x`, and their scales, in memory that is reused.
    fn rows(&self, arch: Arch, x: &[f32], rows: &mut ExactRows) {
        let Powers { shifts, factors } = &self.powers;
        let (count, depth) = (x.len() / self.depth, self.depth);
        let bytes = if let Form::Digits { bytes, .. } = self.form { bytes } else { 0 };
        let ExactRows { q, digits, excess, scales } = rows;
        q.resize(if bytes == 0 { count * depth } else { depth }, 0.0);
        digits.resize(count * 3 * bytes, 0);
        scales.resize(count, 0.0);
        arch.vectorized(inlined!(|| {
            for (i, (x, scale)) in x.chunks_exact(depth).zip(scales.iter_mut()).enumerate() {
                let q = &mut q[if bytes == 0 { i * depth } else { 0 }..][..depth];
                let exponent = if shifts.is_empty() {
                    integers(x, q)
                } else {
                    let (shifts, factors) = (&shifts[..x.len()], &factors[..x.len()]);
                    balanced(x, q, inlined!(|k| shifts[k]), inlined!(|k| factors[k]))
                };
                *scale = self::scale(exponent);
                if bytes > 0 {
                    let digits = &mut digits[i * 3 * bytes..][..3 * bytes];
                    let (low, rest) = digits.split_at_mut(bytes);
                    let (middle, high) = rest.split_at_mut(bytes);
                    for (((low, middle), high), q) in
                        low.iter_mut().zip(middle.iter_mut()).zip(high.iter_mut()).zip(&*q)
                    {
                        [*low, *middle, *high] = digits_of(*q as i32);
                    }
                    [low, middle, high].into_iter().for_each(|digit| digit[depth..].fill(0));
                }
            }
            if bytes > 0 {
                let of = DigitRows { digits, bytes };
                excess.clear();
                excess.extend((0..count).map(|row| of.excess(row)));
            }
        }));
    }

    /// Computes columns of `out [rows, columns]` from panel `first` on, of rows that are integers.
    fn multiply(&self, arch: Arch, rows: &ExactRows, first: usize, out: (&mut [f32], usize)) {
        let column = first * self.width;
        match &self.form {
            Form::Floats { panels, vectors } => ExactProduct {
                a: (&rows.q, self.depth),
                rows: rows.scales.len(),
                depth: self.depth,
                panels: &panels[column * self.depth..],
                panel_depth: self.depth,
                vectors: *vectors,
                columns: out.1,
                row_scales: &rows.scales,
                column_scales: &self.scales[column..],
                out,
            }
            .run(arch),
            Form::Digits { panels, unit, bytes } => {
                let (out, columns) = out;
                let panel = 3 * unit.lines(self.depth);
                let panels = &panels[first * panel..][..columns.div_ceil(self.width) * panel];
                let digits = DigitRows { digits: &rows.digits, bytes: *bytes };
                multiply_digits(*unit, &digits, panels, |top, number, sums| {
                    let from = number * self.width;
                    let count = self.width.min(columns - from);
                    let own = &self.scales[column + from..][..count];
                    arch.vectorized(inlined!(|| {
                        for (i, row) in rows.scales[top..].iter().take(TILED).enumerate() {
                            let of = sums.0.each_ref().map(|sums| &sums[i][..count]);
                            let excess = rows.excess[top + i];
                            let y = &mut out[(top + i) * columns + from..][..count];
                            for (j, (y, scale)) in y.iter_mut().zip(own).enumerate() {
                                let sum = of.iter().rev().fold(0, |sum, of| (sum << 8) + i64::from(of[j]));
                                *y = scaled((sum - excess) as f32, *row, *scale);
                            }
                        }
                    }));
                });
            }
        }
    }
}

/// Rows of `x` as integers in float64 or as digits, and their scales.
#[derive(Default)]
struct ExactRows {
    q: Vec<f64>,
    digits: Vec<i8>,
    /// Of digits, [`DigitRows::excess`] of each row.
    excess: Vec<i64>,
    scales: Vec<f64>,
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
            Form::Floats { .. } => (8, (HELD / depth).clamp(1, 8) * 8),
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
    let mut held = ExactRows { q: filled(rows * depth, 0.0f64, "a product")?, ..ExactRows::default() };
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
