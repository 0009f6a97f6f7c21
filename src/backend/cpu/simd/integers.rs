//! Products of 8-bit integers with the processor's byte products (AVX-512 VNNI), in exact sums of 32 bits.
//!
//! The instruction adds to each of sixteen sums four products of an unsigned and a signed byte. Weights are stored as
//! unsigned bytes `w + 128`, so that each sum starts at `-128 sum_k q[k]`:
//!
//! ```text
//! packed:  [panel of 64 columns][group of four k][64 columns x 4 bytes]
//! ```

/// Columns of a panel: four vectors.
pub const INTEGER_PANEL: usize = 64;
/// Bytes that are multiplied together.
const GROUP: usize = 4;
/// Rows that are multiplied with a panel at a time.
pub const INTEGER_ROWS: usize = 6;

/// Four terms of the columns of a panel, by default zeros.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Line([[u8; 64]; 4]);

impl Default for Line {
    fn default() -> Self {
        Line([[128; 64]; 4])
    }
}

/// Proof that the processor has byte products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteUnit(());

/// Writes at most 64 rows of a weight, `depth` integers each, to a panel of zeros.
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
    mut take: impl FnMut(usize, usize, &[i32]),
) {
    let (rows, groups) = (q.len().checked_div(depth).unwrap_or(0), depth.div_ceil(GROUP));
    // Rows as words of four, padded with zeros.
    let mut words = vec![0i32; rows * groups];
    let mut starts = Vec::with_capacity(rows);
    for (row, words) in q.chunks_exact(depth.max(1)).zip(words.chunks_exact_mut(groups.max(1))) {
        bytemuck::cast_slice_mut::<i32, i8>(words)[..depth].copy_from_slice(row);
        starts.push(-128 * row.iter().map(|x| i32::from(*x)).sum::<i32>());
    }
    let mut sums = [[0i32; INTEGER_PANEL]; INTEGER_ROWS];
    let panels = panels.chunks_exact(groups.max(1)).take(columns.div_ceil(INTEGER_PANEL));
    for (number, panel) in panels.enumerate() {
        let column = number * INTEGER_PANEL;
        let width = INTEGER_PANEL.min(columns - column);
        for first in (0..rows).step_by(INTEGER_ROWS) {
            let count = INTEGER_ROWS.min(rows - first);
            let block = Block { words: &words, starts: &starts, groups, first, last: first + count - 1 };
            match count {
                1 => block.multiply::<1>(unit, panel, &mut sums),
                2 => block.multiply::<2>(unit, panel, &mut sums),
                3 | 4 => block.multiply::<4>(unit, panel, &mut sums),
                _ => block.multiply::<INTEGER_ROWS>(unit, panel, &mut sums),
            }
            for (i, sums) in sums.iter().take(count).enumerate() {
                take(first + i, column, &sums[..width]);
            }
        }
    }
}

/// Rows that are multiplied together.
struct Block<'a> {
    words: &'a [i32],
    starts: &'a [i32],
    groups: usize,
    first: usize,
    last: usize,
}

impl Block<'_> {
    /// The sums of so many rows; the last is repeated where there are fewer.
    fn multiply<const ROWS: usize>(
        &self,
        unit: ByteUnit,
        panel: &[Line],
        sums: &mut [[i32; INTEGER_PANEL]; INTEGER_ROWS],
    ) {
        let of = |i: usize| (self.first + i).min(self.last);
        let rows: [&[i32]; ROWS] = std::array::from_fn(|i| &self.words[of(i) * self.groups..][..self.groups]);
        unit.multiply(rows, std::array::from_fn(|i| self.starts[of(i)]), panel, sums);
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod unit {
    use std::arch::x86_64::{
        _mm512_dpbusd_epi32, _mm512_load_si512, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
    };

    use super::{ByteUnit, INTEGER_PANEL, INTEGER_ROWS, Line};

    impl ByteUnit {
        /// The byte products, if the processor has them.
        pub fn try_new() -> Option<ByteUnit> {
            let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni");
            has.then_some(ByteUnit(()))
        }

        /// The sums of rows with a panel, each from its start.
        pub(super) fn multiply<const ROWS: usize>(
            self,
            rows: [&[i32]; ROWS],
            starts: [i32; ROWS],
            panel: &[Line],
            sums: &mut [[i32; INTEGER_PANEL]; INTEGER_ROWS],
        ) {
            assert!(rows.iter().all(|row| row.len() == panel.len()));
            // SAFETY: `self` proves that the instructions exist.
            unsafe { multiply(rows, starts, panel, sums) }
        }
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    fn multiply<const ROWS: usize>(
        rows: [&[i32]; ROWS],
        starts: [i32; ROWS],
        panel: &[Line],
        sums: &mut [[i32; INTEGER_PANEL]; INTEGER_ROWS],
    ) {
        let mut chains = [[_mm512_setzero_si512(); 4]; ROWS];
        for (chains, start) in chains.iter_mut().zip(starts) {
            *chains = [_mm512_set1_epi32(start); 4];
        }
        for (k, line) in panel.iter().enumerate() {
            for (vector, line) in line.0.iter().enumerate() {
                // SAFETY: a line is aligned, and has as many bytes as four vectors.
                let w = unsafe { _mm512_load_si512(line.as_ptr().cast()) };
                for (chains, row) in chains.iter_mut().zip(rows) {
                    chains[vector] = _mm512_dpbusd_epi32(chains[vector], w, _mm512_set1_epi32(row[k]));
                }
            }
        }
        for (sums, chains) in sums.iter_mut().zip(chains) {
            for (sums, chain) in sums.chunks_exact_mut(16).zip(chains) {
                // SAFETY: sixteen sums.
                unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), chain) };
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod unit {
    use super::{ByteUnit, INTEGER_PANEL, INTEGER_ROWS, Line};

    impl ByteUnit {
        /// Always `None`: only x86-64 processors have these instructions.
        pub fn try_new() -> Option<ByteUnit> {
            None
        }

        pub(super) fn multiply<const ROWS: usize>(
            self,
            _: [&[i32]; ROWS],
            _: [i32; ROWS],
            _: &[Line],
            _: &mut [[i32; INTEGER_PANEL]; INTEGER_ROWS],
        ) {
            unreachable!("no byte products")
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
        let Some(unit) = ByteUnit::try_new() else { return };
        for (rows, columns, depth) in [
            (1, 1, 1),
            (2, 65, 9),
            (3, 64, 8),
            (5, 63, 3),
            (6, 64, 4),
            (7, 65, 5),
            (13, 130, 1030),
            (0, 3, 4),
            (3, 0, 4),
        ] {
            let (q, weight) = match depth {
                3 => (vec![-128; rows * depth], vec![-128; columns * depth]),
                _ => (integers(rows * depth, 1), integers(columns * depth, 2)),
            };
            let mut found = vec![None; rows * columns];
            let mut panels = vec![Line::default(); columns.div_ceil(INTEGER_PANEL) * depth.div_ceil(4)];
            let parts = weight.chunks(INTEGER_PANEL * depth).zip(panels.chunks_exact_mut(depth.div_ceil(4)));
            parts.for_each(|(rows, panel)| integer_panel(rows, depth, panel));
            multiply_integers(unit, &q, depth, &panels, columns, |row, column, sums| {
                for (i, sum) in sums.iter().enumerate() {
                    assert!(found[row * columns + column + i].replace(*sum).is_none());
                }
            });
            for (i, sum) in found.into_iter().enumerate() {
                let terms = (0..depth)
                    .map(|k| i64::from(q[i / columns * depth + k]) * i64::from(weight[i % columns * depth + k]));
                assert_eq!(sum.map(i64::from), Some(terms.sum()), "{rows} {columns} {depth}: {i}");
            }
        }
    }
}
