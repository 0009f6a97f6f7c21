//! Counter-based random numbers (Salmon, Moraes, Dror, Shaw 2011), as in `shaders/include/numbers/philox.glsl`.

/// Philox4x32-10 of a counter of four words, least significant first, and a key.
///
/// ```
/// assert_eq!(grilly::ops::rng::philox([0; 4], [0; 2])[0], 0x6627_e8d5);
/// ```
pub fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    philox_of_many::<1>(counter.map(|word| [word]), key).map(|[word]| word)
}

/// [`philox`] of `N` counters at once, so that LLVM vectorises it.
#[inline(always)]
fn philox_of_many<const N: usize>(mut counters: [[u32; N]; 4], [mut k0, mut k1]: [u32; 2]) -> [[u32; N]; 4] {
    for _ in 0..10 {
        let [c0, c1, c2, c3] = counters;
        for i in 0..N {
            let (low, high) = (0xd251_1f53 * u64::from(c0[i]), 0xcd9e_8d57 * u64::from(c2[i]));
            counters[0][i] = (high >> 32) as u32 ^ c1[i] ^ k0;
            counters[1][i] = high as u32;
            counters[2][i] = (low >> 32) as u32 ^ c3[i] ^ k1;
            counters[3][i] = low as u32;
        }
        (k0, k1) = (k0.wrapping_add(0x9e37_79b9), k1.wrapping_add(0xbb67_ae85));
    }
    counters
}

/// A sequence of random numbers, four per block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// The key.
    pub seed: u64,
    /// The lower words of the counter of block 0; those of later blocks follow.
    pub offset: u64,
    /// The upper words of all counters.
    pub upper: [u32; 2],
}

impl Sequence {
    /// The sequence of the four words of seed and offset, each with its low word first.
    pub fn of_key(key: &[u32], upper: [u32; 2]) -> Self {
        let number = |low: usize| u64::from(key[low + 1]) << 32 | u64::from(key[low]);
        Sequence { seed: number(0), offset: number(2), upper }
    }

    /// Uniform numbers in 0 .. 1, multiples of 2^-24, of blocks `block .. block + N`.
    #[inline(always)]
    pub fn uniforms<const N: usize>(&self, block: u64) -> [[f32; 4]; N] {
        let places: [u64; N] = std::array::from_fn(|i| self.offset.wrapping_add(block).wrapping_add(i as u64));
        let [third, last] = self.upper.map(|word| [word; N]);
        let counters = [places.map(|place| place as u32), places.map(|place| (place >> 32) as u32), third, last];
        let words = philox_of_many(counters, [self.seed as u32, (self.seed >> 32) as u32]);
        let mut uniforms = [[0.0; 4]; N];
        for i in 0..N {
            for word in 0..4 {
                uniforms[i][word] = (words[word][i] >> 8) as i32 as f32 * (1.0 / (1 << 24) as f32);
            }
        }
        uniforms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows `philox4x32 10` of Random123's `kat_vectors`.
    #[test]
    fn philox_gives_the_published_words() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox([u32::MAX; 4], [u32::MAX; 2]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        let (counter, key) = ([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]);
        assert_eq!(philox(counter, key), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }

    #[test]
    fn uniforms_stay_below_one_and_fill_the_range() {
        let sequence = Sequence { seed: 7, offset: 1 << 40, upper: [3, 9] };
        let blocks = sequence.uniforms::<1000>(500);
        assert_eq!(blocks[501], Sequence { offset: (1 << 40) + 1, ..sequence }.uniforms::<1>(1000)[0]);
        let words = philox([1001, 1 << 8, 3, 9], [7, 0]);
        assert_eq!(blocks[501], words.map(|word| (word >> 8) as f32 / (1 << 24) as f32));
        let all = blocks.as_flattened();
        assert!(all.iter().all(|u| (0.0..1.0).contains(u)));
        let mean = all.iter().sum::<f32>() / all.len() as f32;
        // Eight standard deviations of the mean of 4000 numbers.
        assert!((mean - 0.5).abs() < 8.0 * 0.2887 / 4000f32.sqrt(), "{mean}");
    }
}
