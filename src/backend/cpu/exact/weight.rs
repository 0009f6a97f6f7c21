//! Weights as integers in panels.

use rayon::prelude::*;

use super::Powers;
use crate::backend::cpu::floats::Floats;
use crate::backend::cpu::simd::{
    Arch, ByteUnit, INTEGER_PANEL, Line, WORD_PANEL, Widest, WordLine, WordUnit, digit_panel, word_pairs, word_panel,
};
use crate::exit::Request;
use crate::process::memory::filled;
use crate::process::threads;
use crate::quant::everywhere::{self, Columns, Side};
use crate::{Error, Result};

/// How the integers of both operands are stored.
pub(super) enum Form {
    Floats { panels: Floats, vectors: usize },
    Digits { panels: Vec<Line>, unit: ByteUnit, bytes: usize },
    Words { panels: Vec<WordLine>, unit: WordUnit, pairs: usize },
}

/// What multiplies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Floats,
    Digits(ByteUnit),
    Words(WordUnit),
}

impl Unit {
    /// The fastest.
    fn of(arch: Arch) -> Self {
        match (arch.bytes().filter(|unit| unit.has_tiles()), arch.words()) {
            (Some(tiles), _) => Unit::Digits(tiles),
            (None, Some(words)) => Unit::Words(words),
            (None, None) => Unit::Floats,
        }
    }
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
        Exact::on(arch, Unit::of(arch), by, [columns, depth], read)
    }

    /// The same for a unit, or for float64 if it does not hold the sums.
    pub(super) fn on(
        arch: Arch,
        unit: Unit,
        by: Balance,
        [columns, depth]: [usize; 2],
        read: impl Fn(usize, &mut [f32]) -> Result<()> + Sync,
    ) -> Result<Self> {
        let widest = Widest::of_wide(arch);
        let panels = |width: usize| columns.div_ceil(width);
        let of_digits = |unit: ByteUnit| unit.digit_bytes(depth).map(|bytes| (unit, bytes));
        let (digits, words) = match unit {
            Unit::Floats => (None, None),
            Unit::Digits(unit) => (of_digits(unit), None),
            Unit::Words(unit) => (None, word_pairs(depth).map(|pairs| (unit, pairs))),
        };
        let (mut form, width) = match (digits, words) {
            (Some((unit, bytes)), _) => {
                let lines = panels(INTEGER_PANEL) * 3 * unit.lines(depth);
                let panels = filled(lines, Line::default(), "a weight matrix")?;
                (Form::Digits { panels, unit, bytes }, INTEGER_PANEL)
            }
            (None, Some((unit, pairs))) => {
                let panels = filled(panels(WORD_PANEL) * 2 * pairs, WordLine::default(), "a weight matrix")?;
                (Form::Words { panels, unit, pairs }, WORD_PANEL)
            }
            (None, None) => {
                let panels = Floats::zeros(panels(widest.width()) * widest.width() * depth, "a weight matrix")?;
                (Form::Floats { panels, vectors: widest.vectors }, widest.width())
            }
        };
        let padded = columns.next_multiple_of(width);
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
        // Each panel of so many elements, written from the integers of its columns.
        let (integers_of, sizes) = (&integers_of, [width, depth]);
        match &mut form {
            Form::Floats { panels, .. } => {
                each_panel(&mut panels[..], width * depth, &mut scales, sizes, integers_of, |q, panel| {
                    for (column, q) in q.chunks_exact(depth).enumerate() {
                        for (line, q) in panel.chunks_exact_mut(width).zip(q) {
                            line[column] = *q as f32;
                        }
                    }
                })?;
            }
            Form::Digits { panels, unit, .. } => {
                let write = |q: &[i32], panel: &mut [Line]| digit_panel(q, depth, panel);
                each_panel(panels, 3 * unit.lines(depth), &mut scales, sizes, integers_of, write)?;
            }
            Form::Words { panels, pairs, .. } => {
                let write = |q: &[i32], panel: &mut [WordLine]| word_panel(q, depth, panel);
                each_panel(panels, 2 * *pairs, &mut scales, sizes, integers_of, write)?;
            }
        }
        Ok(Exact { form, scales, powers: Powers::of(&b), columns, depth, width })
    }

    /// Columns of the result.
    pub fn columns(&self) -> usize {
        self.columns
    }
}

/// Writes panels of `size` elements, one beside another: `integers_of` makes the integers of a panel's columns and their factors,
/// from memory for a row, and returns how many columns there are.
fn each_panel<T: Send>(
    panels: &mut [T],
    size: usize,
    scales: &mut [f64],
    [width, depth]: [usize; 2],
    integers_of: &(impl Fn(&mut [f32], &mut [i32], usize, &mut [f64]) -> Result<usize> + Sync),
    write: impl Fn(&[i32], &mut [T]) + Sync,
) -> Result<()> {
    let memory = || (vec![0.0f32; depth], vec![0i32; width * depth]);
    let each = panels.par_chunks_mut(size).zip(scales.par_chunks_mut(width).enumerate());
    threads::run(|| {
        each.try_for_each_init(memory, |(row, q), (panel, (number, scales))| {
            let count = integers_of(row, q, number, scales)?;
            write(&q[..count * depth], panel);
            Ok(())
        })
    })?
}
