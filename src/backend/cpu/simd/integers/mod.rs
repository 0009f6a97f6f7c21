//! Products of 8-bit integers, in exact sums of 32 bits, with the instructions that the processor has for them; of integers of
//! 24 bits by their digits (`digits.rs`) or by words of 16 bits (`words.rs`).
//!
//! Products of bytes read weights as unsigned bytes `w + 128`, so that each sum starts at `-128 sum_k q[k]`:
//!
//! ```text
//! packed:  [panel of 64 columns][group of four k][64 columns x 4 bytes]
//! ```

#![allow(unsafe_code)]

mod digits;
#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg_attr(target_arch = "x86_64", path = "x86.rs")]
#[cfg_attr(target_arch = "aarch64", path = "neon.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "none.rs")]
mod unit;
mod words;

use std::ops::Range;

pub use digits::{DigitRows, LARGEST, TILED, digit_panel, digits_of, multiply_digits};
pub use unit::ByteUnit;
pub use words::{Pair, WORD_PANEL, WordLine, WordRows, WordUnit, multiply_words, word_pairs, word_panel, words_of};

/// Columns of a panel.
pub const INTEGER_PANEL: usize = 64;
/// Bytes that are multiplied together.
const GROUP: usize = 4;
/// Rows that are multiplied with a panel at a time.
pub const INTEGER_ROWS: usize = 6;

/// Four terms of the columns of a panel, by default zeros.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub struct Line([[u8; 64]; 4]);

impl Default for Line {
    fn default() -> Self {
        Line([[128; 64]; 4])
    }
}

/// Sums of rows with the columns of a panel.
type Sums = [[i32; INTEGER_PANEL]; INTEGER_ROWS];

/// Writes at most 64 rows of a weight, `depth` integers each, to a panel of zeros, [`ByteUnit::lines`] long.
pub fn integer_panel(weight: &[i8], depth: usize, panel: &mut [Line]) {
    for (column, row) in weight.chunks_exact(depth).enumerate() {
        let (vector, lane) = (column / 16, column % 16 * GROUP);
        let (fours, rest) = row.as_chunks::<GROUP>();
        for (line, four) in panel.iter_mut().zip(fours) {
            line.0[vector][lane..lane + GROUP].copy_from_slice(&four.map(|w| w.cast_unsigned() ^ 128));
        }
        if let Some(line) = panel.get_mut(fours.len()) {
            line.0[vector][lane..].iter_mut().zip(rest).for_each(|(to, w)| *to = w.cast_unsigned() ^ 128);
        }
    }
}

/// Passes all sums `sum_k q[m, k] weight[n, k]` of rows `q [rows, depth]` and the first `columns` of panels to `take`: a
/// row's number, the first of its columns and sums of the columns from there, 64 or those that are left.
pub fn multiply_integers(
    unit: ByteUnit,
    q: &[i8],
    depth: usize,
    panels: &[Line],
    columns: usize,
    take: impl FnMut(usize, usize, &[i32]),
) {
    if depth == 0 {
        return;
    }
    let starts = q.chunks_exact(depth).map(|row| -128 * row.iter().map(|x| i32::from(*x)).sum::<i32>()).collect();
    let lines = unit.lines(depth);
    let rows = ByteRows { q, depth, terms: 0..depth, starts };
    unit.multiply(&rows, &Panels { panels, lines, part: 0..lines, columns }, take);
}

/// `[rows, depth]`
struct ByteRows<'a> {
    q: &'a [i8],
    depth: usize,
    /// Of a row, those that are multiplied.
    terms: Range<usize>,
    /// Where the sums of each row start.
    starts: Vec<i32>,
}

impl ByteRows<'_> {
    fn each(&self) -> impl Iterator<Item = &[i8]> {
        self.q.chunks_exact(self.depth).map(|row| &row[self.terms.clone()])
    }
}

/// Four terms of a row.
type Word<U> = [<U as Bytes>::Term; GROUP];

/// Vector instructions of the processor; a value is the proof that it has them.
trait Bytes: Copy {
    /// A term as the instructions read it.
    type Term: Copy + From<i8>;
    /// Columns that are multiplied at a time, as many as leave registers for the sums of six rows.
    const COLUMNS: usize;

    /// The sums of rows with [`Bytes::COLUMNS`] columns of a panel, each from its start.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn multiply<const ROWS: usize>(
        self,
        rows: [&[Word<Self>]; ROWS],
        starts: [i32; ROWS],
        panel: &[Line],
        column: usize,
        sums: &mut Sums,
    );
}

/// The panels of a weight.
struct Panels<'a> {
    panels: &'a [Line],
    /// Of each panel.
    lines: usize,
    /// Of these, those that are multiplied.
    part: Range<usize>,
    columns: usize,
}

impl Panels<'_> {
    /// Each panel, its first column, and how many it has.
    fn each(&self) -> impl Iterator<Item = (&[Line], usize, usize)> {
        let firsts = (0..self.columns).step_by(INTEGER_PANEL);
        self.panels
            .chunks_exact(self.lines)
            .zip(firsts)
            .map(|(panel, first)| (&panel[self.part.clone()], first, INTEGER_PANEL.min(self.columns - first)))
    }

    fn multiply<U: Bytes>(&self, unit: U, rows: &ByteRows<'_>, mut take: impl FnMut(usize, usize, &[i32])) {
        let (starts, lines) = (&rows.starts, self.part.len());
        // Rows in words of four terms, padded with zeros.
        let mut words = Vec::with_capacity(starts.len() * lines);
        for row in rows.each() {
            let (fours, rest) = row.as_chunks::<GROUP>();
            words.extend(fours.iter().map(|four| four.map(U::Term::from)));
            if !rest.is_empty() {
                let mut last = [0; GROUP];
                last[..rest.len()].copy_from_slice(rest);
                words.push(last.map(U::Term::from));
            }
            words.resize(words.len().next_multiple_of(lines), [U::Term::from(0); GROUP]);
        }
        let mut sums = [[0i32; INTEGER_PANEL]; INTEGER_ROWS];
        for (panel, column, width) in self.each() {
            for first in (0..starts.len()).step_by(INTEGER_ROWS) {
                let count = INTEGER_ROWS.min(starts.len() - first);
                let block = Block { unit, words: &words, starts, first, last: first + count - 1 };
                match count {
                    1 => block.multiply::<1>(panel, &mut sums),
                    2 => block.multiply::<2>(panel, &mut sums),
                    3 | 4 => block.multiply::<4>(panel, &mut sums),
                    _ => block.multiply::<INTEGER_ROWS>(panel, &mut sums),
                }
                for (i, sums) in sums.iter().take(count).enumerate() {
                    take(first + i, column, &sums[..width]);
                }
            }
        }
    }
}

/// Rows that are multiplied together.
struct Block<'a, U: Bytes> {
    unit: U,
    words: &'a [Word<U>],
    starts: &'a [i32],
    first: usize,
    last: usize,
}

impl<U: Bytes> Block<'_, U> {
    /// The sums of so many rows; the last is repeated where there are fewer.
    fn multiply<const ROWS: usize>(&self, panel: &[Line], sums: &mut Sums) {
        let of = |i: usize| (self.first + i).min(self.last);
        let rows: [&[Word<U>]; ROWS] = std::array::from_fn(|i| &self.words[of(i) * panel.len()..][..panel.len()]);
        let starts = std::array::from_fn(|i| self.starts[of(i)]);
        const { assert!(ROWS <= INTEGER_ROWS) };
        for column in (0..INTEGER_PANEL).step_by(U::COLUMNS) {
            // SAFETY: the unit proves that the processor has its instructions.
            unsafe { self.unit.multiply(rows, starts, panel, column, sums) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integers of the whole range, -128 included.
    fn integers(count: usize, seed: u64) -> Vec<i8> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8 as i8
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    #[test]
    fn sums_are_exact() {
        for unit in ByteUnit::all() {
            sums_are_exact_with(unit);
        }
    }

    fn sums_are_exact_with(unit: ByteUnit) {
        let sizes = [
            (1, 1, 1),
            (2, 65, 9),
            (5, 63, 3),
            (7, 65, 5),
            (0, 3, 4),
            (3, 0, 4),
            (3, 64, 8),
            (6, 64, 4),
            (13, 130, 1030),
            (16, 64, 64),
            (33, 65, 130),
            (50, 128, 260),
        ];
        // The first ones take Miri half a minute.
        for (rows, columns, depth) in sizes.into_iter().take(if cfg!(miri) { 6 } else { usize::MAX }) {
            let (q, weight) = match depth {
                3 => (vec![-128; rows * depth], vec![-128; columns * depth]),
                _ => (integers(rows * depth, 1), integers(columns * depth, 2)),
            };
            let mut found = vec![None; rows * columns];
            let mut panels = vec![Line::default(); columns.div_ceil(INTEGER_PANEL) * unit.lines(depth)];
            let parts = weight.chunks(INTEGER_PANEL * depth).zip(panels.chunks_exact_mut(unit.lines(depth)));
            parts.for_each(|(rows, panel)| integer_panel(rows, depth, panel));
            multiply_integers(unit, &q, depth, &panels, columns, |row, column, sums| {
                for (i, sum) in sums.iter().enumerate() {
                    assert!(found[row * columns + column + i].replace(*sum).is_none());
                }
            });
            for (i, sum) in found.into_iter().enumerate() {
                let terms = (0..depth)
                    .map(|k| i64::from(q[i / columns * depth + k]) * i64::from(weight[i % columns * depth + k]));
                assert_eq!(sum.map(i64::from), Some(terms.sum()), "{unit:?} {rows} {columns} {depth}: {i}");
            }
        }
    }
}
