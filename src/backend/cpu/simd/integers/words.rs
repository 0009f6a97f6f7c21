//! Products of integers of 24 bits by those of their two halves, in words of 16 bits.
//!
//! ```text
//! a = h 2^12 + l,  |h| < 2^11, |l| <= 2^11:   a b = h h' 2^24 + ((h + l) (h' + l') - h h' - l l') 2^12 + l l'
//!
//! rows:    [row][h, l, h + l][pair of k][2]
//! packed:  [panel of 48 columns][64 pairs of k][h, l][pair][48 columns x 2]
//! ```
//! Three products take the place of four. Their sums have 32 bits and may wrap: what is between the halves fits in 256 terms,
//! after which it moves to a sum of 64 bits.

#[cfg_attr(target_arch = "x86_64", path = "words/x86.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "words/none.rs")]
mod unit;

pub use unit::WordUnit;

/// Columns of a panel.
pub const WORD_PANEL: usize = 48;
/// Rows that are multiplied with a panel at a time.
const ROWS: usize = 8;
/// Pairs whose words in a panel, 24 KiB, stay in the first-level cache.
const SEGMENT: usize = 64;
/// Pairs between two sums of 64 bits: 256 * 2 * 2040 * 2^11 < 2^31.
const JOINED: usize = 2 * SEGMENT;
/// Terms whose sums have 64 bits.
const MOST_TERMS: usize = 1 << 17;
/// Tiles of rows that fetch the next panel while they are multiplied with one, a part each.
const FETCHING: usize = 8;

/// Words of two neighbouring terms.
pub type Pair = [i16; 2];

/// A half of two terms of the columns of a panel, by default zeros.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(align(64))]
pub struct WordLine([Pair; WORD_PANEL]);

impl Default for WordLine {
    fn default() -> Self {
        WordLine([[0; 2]; WORD_PANEL])
    }
}

/// Sums of rows with the columns of a panel.
#[repr(align(64))]
pub struct WordSums(pub [[i64; WORD_PANEL]; ROWS]);

/// The three sums of words that a sum is made of.
#[repr(align(64))]
struct Parts([[[i32; WORD_PANEL]; ROWS]; 3]);

/// The halves of an integer of 24 bits, the high one first.
#[inline(always)]
pub fn words_of(q: i32) -> [i16; 2] {
    let high = (q + (1 << 11)) >> 12;
    [high as i16, (q - (high << 12)) as i16]
}

/// Pairs of a row of so many terms; `None` if sums do not fit.
pub fn word_pairs(depth: usize) -> Option<usize> {
    (1..=MOST_TERMS).contains(&depth).then(|| depth.div_ceil(2))
}

/// Writes at most 48 rows of a weight, `depth` integers each, to a panel of zeros with two lines for each of [`word_pairs`].
pub fn word_panel(weight: &[i32], depth: usize, panel: &mut [WordLine]) {
    for (column, row) in weight.chunks_exact(depth).enumerate() {
        for (terms, lines) in row.chunks(2 * SEGMENT).zip(panel.chunks_mut(2 * SEGMENT)) {
            let (high, low) = lines.split_at_mut(lines.len() / 2);
            for (k, q) in terms.iter().enumerate() {
                [high[k / 2].0[column][k % 2], low[k / 2].0[column][k % 2]] = words_of(*q);
            }
        }
    }
}

/// Rows in words, `[*, 3 pairs]`: of a row the high halves, the low ones, the sums of both, each padded with zeros.
pub struct WordRows<'a> {
    pub words: &'a [Pair],
    /// As of [`word_pairs`].
    pub pairs: usize,
}

/// Passes all sums of rows with panels to `take`: the number of the first row, how many of the sums were passed before, the
/// number of the panel, and the sums of some rows from the first on.
pub fn multiply_words(
    unit: WordUnit,
    rows: &WordRows<'_>,
    panels: &[WordLine],
    mut take: impl FnMut(usize, usize, usize, &[[i64; WORD_PANEL]]),
) {
    let (pairs, lines) = (rows.pairs, 2 * rows.pairs);
    let count = rows.words.len() / (3 * pairs);
    let Some(log) = count.checked_ilog2() else {
        return;
    };
    // The last tile is moved up to end with the rows.
    let tall = ROWS.min(1 << log);
    let mut sums = WordSums([[0; WORD_PANEL]; ROWS]);
    for (number, panel) in panels.chunks_exact(lines).enumerate() {
        let next = panels.chunks_exact(lines).nth(number + 1).unwrap_or(panel);
        for (share, row) in (0..count).step_by(tall).enumerate() {
            let first = row.min(count - tall);
            let words = &rows.words[3 * first * pairs..];
            let next = (next, share % FETCHING);
            match tall {
                1 => tile::<1>(unit, words, panel, next, &mut sums),
                2 => tile::<2>(unit, words, panel, next, &mut sums),
                4 => tile::<4>(unit, words, panel, next, &mut sums),
                _ => tile::<ROWS>(unit, words, panel, next, &mut sums),
            }
            take(first, row - first, number, &sums.0[..tall]);
        }
    }
}

/// The sums of the first rows with a panel, while a share of the next panel is fetched.
fn tile<const R: usize>(
    unit: WordUnit,
    words: &[Pair],
    panel: &[WordLine],
    (next, share): (&[WordLine], usize),
    sums: &mut WordSums,
) {
    const { assert!(R <= ROWS) };
    let pairs = panel.len() / 2;
    let rows: [[&[Pair]; 3]; R] =
        std::array::from_fn(|i| std::array::from_fn(|part| &words[(3 * i + part) * pairs..][..pairs]));
    let mut parts = Parts([[[0; WORD_PANEL]; ROWS]; 3]);
    sums.0[..R].fill([0; WORD_PANEL]);
    for (number, lines) in panel.chunks(2 * SEGMENT).enumerate() {
        let from = number * SEGMENT;
        let until = from + lines.len() / 2;
        let next = &next[2 * from + share * lines.len() / FETCHING..];
        let rows = rows.each_ref().map(|row| row.map(|part| &part[from..until]));
        unit.add(&rows, lines.split_at(lines.len() / 2), next, &mut parts);
        if until.is_multiple_of(JOINED) || until == pairs {
            unit.join::<R>(&mut parts, sums);
        }
    }
}

/// Moves the sums of words to those of 64 bits.
#[inline(always)]
fn join<const R: usize>(parts: &mut Parts, sums: &mut WordSums) {
    let [high, low, both] = &mut parts.0;
    for (((high, low), both), sums) in high.iter_mut().zip(low).zip(both).zip(&mut sums.0).take(R) {
        for (((high, low), both), sum) in high.iter_mut().zip(low.iter_mut()).zip(both.iter_mut()).zip(sums) {
            let between = both.wrapping_sub(*high).wrapping_sub(*low);
            *sum += (((i64::from(*high) << 12) + i64::from(between)) << 12) + i64::from(*low);
            (*high, *low, *both) = (0, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LARGEST;
    use super::*;

    /// Integers in -LARGEST ..= LARGEST, often the largest, or those whose halves are.
    fn integers(count: usize, seed: u64) -> Vec<i32> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let x = (state >> 33) as i32;
            match x % 7 {
                0 => LARGEST,
                1 => -LARGEST,
                2 => (2039 << 12) + 2047,
                3 => (-2039 << 12) - 2048,
                _ => x % (LARGEST + 1),
            }
        };
        match seed {
            0 => vec![-LARGEST; count],
            1 => vec![(-2039 << 12) - 2048; count],
            _ => std::iter::repeat_with(next).take(count).collect(),
        }
    }

    #[test]
    fn halves_make_the_integer_and_are_as_small_as_said() {
        for q in (-LARGEST..=LARGEST).step_by(if cfg!(miri) { 40_009 } else { 7 }).chain([LARGEST]) {
            let [high, low] = words_of(q).map(i32::from);
            assert_eq!((high << 12) + low, q);
            assert!(high.abs() <= 2040 && (-2048..=2047).contains(&low), "{q}");
        }
    }

    #[test]
    fn sums_are_those_of_wide_integers() {
        let Some(unit) = WordUnit::try_new() else {
            return;
        };
        for depth in [1usize, 2, 15, 127, 128, 129, 130, 255, 256, 257, 384, 4097, 43_690, 70_000, MOST_TERMS] {
            let sizes: &[[usize; 2]] =
                if depth > 5000 { &[[1, 2], [3, 1]] } else { &[[1, 1], [2, 48], [5, 49], [13, 3], [33, 100]] };
            for ([rows, columns], seed) in sizes.iter().flat_map(|size| [(*size, 0), (*size, 1), (*size, 7)]) {
                let (a, b) = (integers(rows * depth, seed), integers(columns * depth, seed * 3));
                let pairs = word_pairs(depth).unwrap();
                let mut words = vec![[0; 2]; rows * 3 * pairs];
                for (row, words) in a.chunks_exact(depth).zip(words.chunks_exact_mut(3 * pairs)) {
                    for (k, q) in row.iter().enumerate() {
                        let [high, low] = words_of(*q);
                        let parts = [high, low, high + low].into_iter().enumerate();
                        parts.for_each(|(part, word)| words[part * pairs + k / 2][k % 2] = word);
                    }
                }
                let mut panels = vec![WordLine::default(); columns.div_ceil(WORD_PANEL) * 2 * pairs];
                let each = b.chunks(WORD_PANEL * depth).zip(panels.chunks_exact_mut(2 * pairs));
                each.for_each(|(weight, panel)| word_panel(weight, depth, panel));
                let mut found = vec![None; rows * columns];
                multiply_words(unit, &WordRows { words: &words, pairs }, &panels, |first, done, number, sums| {
                    for (row, sums) in (first..).zip(sums).skip(done) {
                        let own = (number * WORD_PANEL..columns).zip(sums);
                        own.for_each(|(j, sum)| assert!(found[row * columns + j].replace(*sum).is_none()));
                    }
                });
                for (at, sum) in found.into_iter().enumerate() {
                    let [a, b] = [&a[at / columns * depth..], &b[at % columns * depth..]].map(|of| &of[..depth]);
                    let exact: i128 = a.iter().zip(b).map(|(a, b)| i128::from(*a) * i128::from(*b)).sum();
                    assert_eq!(sum.map(i128::from), Some(exact), "{rows} {columns} {depth} {seed}: {at}");
                }
            }
        }
        assert!(word_pairs(MOST_TERMS + 1).is_none() && word_pairs(0).is_none());
    }
}
