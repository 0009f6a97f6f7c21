//! Products of integers of 24 bits by those of their three signed digits to the base 256.
//!
//! ```text
//! a b = sum 2^(8 d) s[d],  d = 0 .. 4;      s[2] = a0 b2 + a1 b1 + a2 b0 = [a0 a1 a2] . [b2 b1 b0]
//! ```
//! Rows have the lowest digits first, columns the highest, so that each of the five sums is one product of neighbours.

use std::ops::Range;

use super::{ByteRows, ByteUnit, GROUP, INTEGER_PANEL, Line, Panels, integer_panel};

/// The largest integer of three signed digits to the base 256.
pub const LARGEST: i32 = 127 * 0x01_01_01;

/// Terms of which 32 bits hold three products of a digit and an unsigned byte each.
const MOST_TERMS: usize = 21_888;

/// Rows that are multiplied with a panel at a time.
pub const TILED: usize = 32;

/// Sums of rows with a panel, by the weight of their digits.
#[repr(align(64))]
pub struct DigitSums(pub [[[i32; INTEGER_PANEL]; TILED]; 5]);

impl Default for DigitSums {
    fn default() -> Self {
        DigitSums([[[0; INTEGER_PANEL]; TILED]; 5])
    }
}

/// Rows in digits, `[*, 3 bytes]`, those of a row one after the other.
pub struct DigitRows<'a> {
    /// The lowest digits of a row first, each padded with zeros.
    pub digits: &'a [i8],
    /// As of [`ByteUnit::digit_bytes`].
    pub bytes: usize,
}

impl DigitRows<'_> {
    pub fn count(&self) -> usize {
        self.digits.len() / (3 * self.bytes)
    }

    /// What the sum of a row with any column is too large by, since weights are stored with 128 added.
    pub fn excess(&self, row: usize) -> i64 {
        let digits = self.digits[3 * row * self.bytes..][..3 * self.bytes].chunks_exact(self.bytes);
        let sums = digits.zip([0, 8, 16]).map(|(digit, places)| {
            let sum: i32 = digit.iter().map(|x| i32::from(*x)).sum();
            i64::from(sum) << places
        });
        128 * 0x01_01_01 * sums.sum::<i64>()
    }

    /// Multiplies panel by panel and rows by rows with the bytes of a unit.
    pub(super) fn each_multiplied(
        &self,
        unit: ByteUnit,
        panels: &[Line],
        mut take: impl FnMut(usize, usize, &DigitSums),
    ) {
        let lines = self.bytes / GROUP;
        let mut sums = DigitSums::default();
        for (number, panel) in panels.chunks_exact(3 * lines).enumerate() {
            for (group, rows) in self.digits.chunks(TILED * 3 * self.bytes).enumerate() {
                for (weight, sums) in sums.0.iter_mut().enumerate() {
                    let [terms, part] = neighbours(weight, 1);
                    let terms = terms.start * self.bytes..terms.end * self.bytes;
                    let part = part.start * lines..part.end * lines;
                    let starts = vec![0; rows.len() / (3 * self.bytes)];
                    let rows = ByteRows { q: rows, depth: 3 * self.bytes, terms, starts };
                    let panels = Panels { panels: panel, lines: 3 * lines, part, columns: INTEGER_PANEL };
                    unit.multiply(&rows, &panels, |row, _, found| sums[row].copy_from_slice(found));
                }
                take(group * TILED, number, &sums);
            }
        }
    }
}

/// Where the digits lie whose products have a weight, those of rows and those of columns, each of `size`.
pub fn neighbours(weight: usize, size: usize) -> [Range<usize>; 2] {
    let (first, last) = (weight.saturating_sub(2), weight.min(2));
    let of_columns = 2 + first - weight;
    [first * size..(last + 1) * size, of_columns * size..(of_columns + last + 1 - first) * size]
}

/// The digits of an integer of 24 bits, the lowest first.
#[inline(always)]
pub fn digits_of(q: i32) -> [i8; 3] {
    let low = q as i8;
    let rest = (q - i32::from(low)) >> 8;
    let middle = rest as i8;
    [low, middle, ((rest - i32::from(middle)) >> 8) as i8]
}

impl ByteUnit {
    /// Bytes of a digit of a row of so many terms, with zeros at the end; `None` if sums do not fit.
    pub fn digit_bytes(self, depth: usize) -> Option<usize> {
        (1..=MOST_TERMS).contains(&depth).then(|| GROUP * self.lines(depth))
    }
}

/// Writes at most 64 rows of a weight, `depth` integers each, to a panel of zeros with three times [`ByteUnit::lines`] lines.
pub fn digit_panel(weight: &[i32], depth: usize, panel: &mut [Line]) {
    let lines = panel.len() / 3;
    for (digit, panel) in (0..3).rev().zip(panel.chunks_exact_mut(lines)) {
        let digits: Vec<i8> = weight.iter().map(|q| digits_of(*q)[digit]).collect();
        integer_panel(&digits, depth, panel);
    }
}

/// Passes the sums of rows with panels to `take`: the number of the first of at most [`TILED`] rows, that of the panel, the sums,
/// which are too large by [`DigitRows::excess`].
pub fn multiply_digits(
    unit: ByteUnit,
    rows: &DigitRows<'_>,
    panels: &[Line],
    take: impl FnMut(usize, usize, &DigitSums),
) {
    unit.multiply_digits(rows, panels, take);
}
