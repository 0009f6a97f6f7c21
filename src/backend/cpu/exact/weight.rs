//! Weights as integers in panels.

use rayon::prelude::*;

use super::Powers;
use crate::backend::cpu::floats::Floats;
use crate::backend::cpu::simd::{Arch, ByteUnit, INTEGER_PANEL, Line, Widest, digit_panel};
use crate::exit::Request;
use crate::process::memory::filled;
use crate::process::threads;
use crate::quant::everywhere::{self, Columns, Side};
use crate::{Error, Result};

/// How the integers of both operands are stored.
pub(super) enum Form {
    Floats { panels: Floats, vectors: usize },
    Digits { panels: Vec<Line>, unit: ByteUnit, bytes: usize },
}

/// A weight `[columns, depth]` as integers in panels, and what the rows of `x` are balanced with.
pub struct Exact {
    pub(super) form: Form,
    /// Of each column of the result, padded with ones.
    pub(super) scales: Vec<f64>,
    /// The balance of `x`.
    pub(super) powers: Powers,
    pub(super) columns: usize,
    pub(super) depth: usize,
    /// Columns of a panel.
    pub(super) width: usize,
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
    pub(super) fn on(
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
                *scale = super::scale(everywhere::integers(row, &b, Side::Weight, q));
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
}
