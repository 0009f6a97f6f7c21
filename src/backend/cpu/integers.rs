//! Weights of few bits, unpacked to bytes in the form that their products read.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use super::simd::{Arch, ByteUnit, INTEGER_PANEL, Line, integer_panel, multiply_integers};
use crate::Result;
use crate::process::threads;

/// A weight `[columns, depth]`.
pub struct PackedIntegers<'a> {
    columns: usize,
    depth: usize,
    stored: Stored<'a>,
}

enum Stored<'a> {
    /// For byte products, which have the sums of the columns from their packing.
    Panels { unit: ByteUnit, lines: Vec<Line>, sums: Vec<i32> },
    /// In rows, as given.
    Rows(Cow<'a, [i8]>),
}

impl<'a> PackedIntegers<'a> {
    /// Packs the matrix whose row `n` (of `columns`) `read` writes into a slice of `depth`, in panels where the processor
    /// multiplies these. Runs on the current pool.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn new(
        unit: Option<ByteUnit>,
        columns: usize,
        depth: usize,
        read: impl Fn(usize, &mut [i8]) -> Result<()> + Sync,
    ) -> Result<Self> {
        let Some(unit) = unit.filter(|_| depth > 0) else {
            let mut rows = vec![0; columns * depth];
            threads::run(|| {
                let each = rows.par_chunks_exact_mut(depth.max(1)).enumerate();
                each.try_for_each(|(n, row)| read(n, row))
            })??;
            return Ok(PackedIntegers::in_rows(columns, depth, Cow::Owned(rows)));
        };
        let lines = unit.lines(depth);
        let mut panels = vec![Line::default(); columns.div_ceil(INTEGER_PANEL) * lines];
        let mut sums = vec![0; columns];
        let pack = |rows: &mut Vec<i8>, (number, (panel, sums)): (usize, (&mut [Line], &mut [i32]))| {
            let rows = &mut rows[..sums.len() * depth];
            for ((column, row), sum) in rows.chunks_exact_mut(depth).enumerate().zip(sums) {
                read(number * INTEGER_PANEL + column, row)?;
                *sum = row.iter().map(|w| i32::from(*w)).sum();
            }
            integer_panel(rows, depth, panel);
            Ok(())
        };
        threads::run(|| {
            let pieces = panels.par_chunks_exact_mut(lines).zip(sums.par_chunks_mut(INTEGER_PANEL));
            pieces.enumerate().try_for_each_init(|| vec![0; INTEGER_PANEL * depth], pack)
        })??;
        Ok(PackedIntegers { columns, depth, stored: Stored::Panels { unit, lines: panels, sums } })
    }

    /// A matrix in rows.
    pub fn in_rows(columns: usize, depth: usize, rows: Cow<'a, [i8]>) -> Self {
        PackedIntegers { columns, depth, stored: Stored::Rows(rows) }
    }

    /// Rows of the result.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The sums `sum_k weight[n, k]`.
    pub fn column_sums(&self) -> Cow<'_, [i32]> {
        match &self.stored {
            Stored::Panels { sums, .. } => sums.into(),
            Stored::Rows(rows) => {
                let sum = |column: usize| rows[column * self.depth..][..self.depth].iter().map(|w| i32::from(*w)).sum();
                (0..self.columns).map(sum).collect()
            }
        }
    }

    /// Row `n` of a matrix in rows.
    #[inline(always)]
    pub fn row(&self, n: usize) -> Option<&[i8]> {
        match &self.stored {
            Stored::Panels { .. } => None,
            Stored::Rows(rows) => Some(&rows[n * self.depth..][..self.depth]),
        }
    }

    /// Passes the exact sums `sum_k q[m, k] weight[n, k]` of columns, the first a multiple of 64, and all rows
    /// `q [rows, depth]` to `take`: a row's number, the first of its columns, and sums of at most 64 columns from there.
    pub fn multiply(
        &self,
        arch: Arch,
        (q, rows): (&[i8], usize),
        columns: Range<usize>,
        mut take: impl FnMut(usize, usize, &[i32]),
    ) {
        let weight = match &self.stored {
            Stored::Panels { unit, lines, .. } => {
                let panels = &lines[columns.start / INTEGER_PANEL * unit.lines(self.depth)..];
                let first = columns.start;
                multiply_integers(*unit, q, self.depth, panels, columns.len(), |row, column, sums| {
                    take(row, first + column, sums);
                });
                return;
            }
            Stored::Rows(weight) => weight,
        };
        let mut sums = [0; INTEGER_PANEL];
        for column in columns.clone().step_by(INTEGER_PANEL) {
            let sums = &mut sums[..INTEGER_PANEL.min(columns.end - column)];
            for row in 0..rows {
                let q = &q[row * self.depth..][..self.depth];
                arch.vectorized(inlined!(|| {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        *sum = dot(q, &weight[(column + i) * self.depth..][..self.depth]);
                    }
                }));
                take(row, column, sums);
            }
        }
    }
}

/// The exact sum of products.
#[inline(always)]
pub fn dot(q: &[i8], weight: &[i8]) -> i32 {
    q.iter().zip(weight).map(|(q, w)| i32::from(*q) * i32::from(*w)).sum()
}
