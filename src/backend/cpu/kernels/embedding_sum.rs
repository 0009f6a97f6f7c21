//! `y[t] = sum_i table_i[index_i[t]]`; the rows are read in place from the mapped checkpoint.

use crate::backend::cpu::constants::Stacked;
use crate::backend::cpu::step::Step;
use crate::ops::EmbeddingSum;
use crate::{Error, Result};

/// Rows of one table, in either storage.
enum Table<'a> {
    /// Tensors of the checkpoint, with so many elements.
    Stored(Stacked<'a>, usize),
    /// Floats of an input.
    Given(&'a [f32]),
}

impl Table<'_> {
    /// Copies row `row`; returns false when it does not exist.
    ///
    /// # Errors
    /// As [`TensorView::read_f32`].
    fn read(&self, row: usize, out: &mut [f32]) -> Result<bool> {
        let columns = out.len();
        match self {
            Table::Given(values) => {
                let values = values.get(row * columns..(row + 1) * columns);
                Ok(values.map(|values| out.copy_from_slice(values)).is_some())
            }
            Table::Stored(_, elements) if (row + 1) * columns > *elements => Ok(false),
            Table::Stored(stacked, _) => stacked.read_f32(row * columns, out).map(|()| true),
        }
    }
}

/// The tables of a step, each with its indices.
pub(super) struct Tables<'a> {
    step: Step<'a>,
    pairs: Vec<(&'a [u32], Table<'a>)>,
}

impl<'a> Tables<'a> {
    /// Those of the operands.
    ///
    /// # Errors
    /// As [`Step::indices`], and those of a table that cannot be read.
    pub fn of(step: &Step<'a>) -> Result<Self> {
        let mut pairs = Vec::new();
        for ids in (0..step.operands.len()).step_by(2) {
            let elements = step.shape(ids + 1).elements(step.counts);
            let table = match step.parts(ids + 1) {
                Some(parts) => Table::Stored(step.constants.stacked(parts, elements)?, elements),
                None => Table::Given(step.floats(ids + 1)?),
            };
            pairs.push((step.indices(ids)?, table));
        }
        Ok(Tables { step: *step, pairs })
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.pairs.len()
    }

    /// Copies the row of a table that token `t` has.
    ///
    /// # Errors
    /// `IndexOutOfRange`, and those of a table that cannot be read.
    pub fn read(&self, table: usize, t: usize, out: &mut [f32]) -> Result<()> {
        let (indices, table) = &self.pairs[table];
        if table.read(indices[t] as usize, out)? {
            return Ok(());
        }
        let rows: Vec<String> = (0..self.count()).map(|i| self.step.shape(2 * i + 1).rows().to_string()).collect();
        let rows = rows.join(", ");
        let problem = format!("embedding_sum: an index lies outside its table (rows of the tables: {rows})");
        Err(Error::IndexOutOfRange(problem))
    }
}

pub(super) fn embedding_sum(step: &Step<'_>, _: &EmbeddingSum, out: &mut [f32]) -> Result<()> {
    let (columns, tables) = (step.shape(1).columns(), Tables::of(step)?);
    step.team.try_rows(out, columns, 16, |first, part| {
        let mut row = vec![0.0f32; columns];
        for (t, sum) in (first..).zip(part.chunks_exact_mut(columns)) {
            tables.read(0, t, sum)?;
            for table in 1..tables.count() {
                tables.read(table, t, &mut row)?;
                sum.iter_mut().zip(&row).for_each(|(sum, x)| *sum += *x);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::simd::Arch;
    use crate::backend::cpu::testing::{Operand, numbers, run, try_run};
    use crate::ops::{Counts, Dim, EmbeddingSum, Shape};

    #[test]
    fn rows_are_added_in_order() {
        let (words, types, columns) = (numbers(50 * 19, 1), numbers(2 * 19, 2), 19);
        for tokens in [0, 1, 2, 33, 100] {
            let word: Vec<u32> = (0..tokens as u32).map(|i| i * 7 % 50).collect();
            let kind: Vec<u32> = (0..tokens as u32).map(|i| i % 2).collect();
            let operands = [
                Operand::Indices(Shape::vector(Dim::Tokens), &word),
                Operand::Weight(&[50, 19], &words),
                Operand::Indices(Shape::vector(Dim::Tokens), &kind),
                Operand::Floats(Shape::fixed(&[2, 19]), &types),
            ];
            let y = run(EmbeddingSum {}, &operands, Counts::new(tokens, 1), Arch::new());
            for (t, row) in y.chunks_exact(columns).enumerate() {
                for (c, y) in row.iter().enumerate() {
                    assert_eq!(*y, words[word[t] as usize * 19 + c] + types[kind[t] as usize * 19 + c]);
                }
            }
        }
    }

    #[test]
    fn an_index_outside_the_table_is_an_error() {
        let operands = [Operand::Indices(Shape::vector(Dim::Tokens), &[1, 2]), Operand::Weight(&[2, 3], &[0.0; 6])];
        let error = try_run(EmbeddingSum {}, &operands, Counts::new(2, 1), Arch::new(), 1);
        assert!(matches!(error, Err(Error::IndexOutOfRange(_))));
    }
}
