//! Attention biases by the distance of two tokens: stored per bucket, read per distance.

use super::parts::Table;
use crate::Result;
use crate::numerics::portable::{exp2, ln};
use crate::tensor::{Part, Recipe};

/// Biases of scores by distance, `[buckets, heads]`, as in T5 (Raffel et al. 2020).
///
/// Half of the buckets are for keys after the query, or none where no query sees such keys. Of `n` buckets of a
/// direction, distances below `n / 2` have one each; larger distances share buckets logarithmically:
/// `n / 2 + floor(n / 2 * log(distance / (n / 2)) / log(max_distance / (n / 2)))`, at most `n - 1`. Reference:
/// `_relative_position_bucket` of transformers' T5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelativeBiases {
    /// The table; it has at least `buckets` rows, and only those are read.
    pub table: Table,
    /// Number of buckets for all directions.
    pub buckets: usize,
    /// Distance at which the last bucket begins, up to rounding.
    pub max_distance: usize,
    /// Whether all buckets are for keys up to the query's own position.
    pub causal: bool,
}

impl RelativeBiases {
    /// The same with the table of this name.
    pub fn named(&self, name: &str) -> Self {
        RelativeBiases { table: Table { name: name.to_owned(), ..self.table }, ..*self }
    }

    /// The bucket of a key `distance` positions after the query.
    pub fn bucket(&self, distance: i64) -> usize {
        let buckets = self.of_a_direction();
        let exact = buckets / 2;
        let (length, after) = match (self.causal, distance > 0) {
            (true, true) => return 0,
            (_, after) => (distance.unsigned_abs() as usize, usize::from(after) * buckets),
        };
        if length < exact {
            return after + length;
        }
        // In float32 as in the reference, so that a distance at a bucket boundary is assigned to the same bucket.
        let ratio =
            ln(f64::from(length as f32 / exact as f32)) as f32 / ln(self.max_distance as f64 / exact as f64) as f32;
        after + (exact + (ratio * (buckets - exact) as f32) as usize).min(buckets - 1)
    }

    fn of_a_direction(&self) -> usize {
        if self.causal { self.buckets } else { self.buckets / 2 }
    }

    /// The smallest distance from which on all distances are in the last bucket of their direction.
    fn reach(&self) -> usize {
        let last = self.of_a_direction() - 1;
        (0..self.max_distance).find(|distance| self.bucket(-(*distance as i64)) == last).unwrap_or(self.max_distance)
    }

    /// Columns of the biases that attention reads: column `reach + d` is for keys `d` positions after the query.
    pub fn distances(&self) -> usize {
        2 * self.reach() + 1
    }

    /// The biases that attention reads, `[heads, distances]`, computed from the table when read.
    pub fn part(&self, heads: usize) -> Part {
        let reach = self.reach() as i64;
        let buckets = (-reach..=reach).map(|distance| self.bucket(distance)).collect();
        Part::new(&self.table.name, &[self.table.rows, heads], vec![Recipe::Gathered(buckets), Recipe::Transposed])
    }
}

/// The slopes of ALiBi (Press et al. 2022): `2^(-8 k / heads)` for `k` from 1 on; for a number of heads that is not a
/// power of two those of the next smaller one, then every second one of the next larger.
pub fn slopes(heads: usize) -> Vec<f32> {
    let of = |heads: usize| (1..=heads).map(move |k| exp2(-8.0 * k as f64 / heads as f64) as f32);
    let smaller = 1 << heads.ilog2();
    of(smaller).chain(of(2 * smaller).step_by(2)).take(heads).collect()
}

/// The biases of ALiBi for all distances in texts of so many tokens: `[heads, 2 longest - 1]`, as attention reads them.
///
/// # Errors
/// `OutOfMemory`.
pub fn by_slope(slopes: &[f32], longest: usize) -> Result<(Part, usize)> {
    let reach = longest as i64 - 1;
    let values = slopes.iter().flat_map(|slope| (-reach..=reach).map(move |at| -slope * at.unsigned_abs() as f32));
    let columns = 2 * longest - 1;
    Ok((Part::table("ALiBi", &[slopes.len(), columns], values)?, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn biases() -> RelativeBiases {
        let table = Table { name: "biases".into(), rows: 32 };
        RelativeBiases { table, buckets: 32, max_distance: 128, causal: false }
    }

    #[test]
    fn buckets_are_the_references() {
        // First distance of each bucket, found with transformers 5.23.
        let starts = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];
        for distance in 0..1000i64 {
            let bucket = starts.iter().rposition(|start| *start <= distance).unwrap();
            assert_eq!(biases().bucket(-distance), bucket, "{distance} before");
            if distance > 0 {
                assert_eq!(biases().bucket(distance), 16 + bucket, "{distance} after");
            }
        }
    }

    #[test]
    fn float32_logarithms_of_the_platform_give_the_same_buckets() {
        for (buckets, max_distance) in
            [(8, 20), (16, 64), (32, 64), (32, 128), (32, 256), (64, 128), (64, 512), (128, 1024)]
        {
            let biases = RelativeBiases { buckets, max_distance, causal: true, ..biases() };
            let exact = buckets / 2;
            for length in exact..2 * max_distance {
                let ratio = (length as f32 / exact as f32).ln() / (max_distance as f64 / exact as f64).ln() as f32;
                let bucket = (exact + (ratio * exact as f32) as usize).min(buckets - 1);
                assert_eq!(biases.bucket(-(length as i64)), bucket, "{buckets} {max_distance} {length}");
            }
        }
    }

    #[test]
    fn all_buckets_are_for_earlier_keys_where_no_later_one_is_seen() {
        let causal = RelativeBiases { causal: true, ..biases() };
        // First distance of each bucket from 16 on, found with transformers 5.23.
        let starts = [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113];
        for distance in 0..1000i64 {
            let shared = starts.iter().rposition(|start| *start <= distance).map(|bucket| 16 + bucket);
            assert_eq!(causal.bucket(-distance), shared.unwrap_or(distance as usize), "{distance} before");
        }
        assert_eq!((causal.bucket(1), causal.bucket(500), causal.distances()), (0, 0, 2 * 113 + 1));
    }

    #[test]
    fn slopes_are_the_papers() {
        assert_eq!(slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 1.0 / 64.0, 1.0 / 128.0, 1.0 / 256.0]);
        let root = 0.5f32.sqrt();
        assert_eq!(slopes(12)[7..], [1.0 / 256.0, root, root / 2.0, root / 4.0, root / 8.0]);
        assert_eq!((slopes(1), slopes(3)), (vec![1.0 / 256.0], vec![0.0625, 1.0 / 256.0, 0.25]));
        let (part, columns) = by_slope(&[0.5], 3).unwrap();
        let bytes = part.computed.as_deref().unwrap();
        let values = bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap()));
        assert_eq!((values.collect::<Vec<_>>(), columns), (vec![-1.0, -0.5, 0.0, -0.5, -1.0], 5));
    }

    #[test]
    fn the_table_is_spread_over_distances() {
        let part = biases().part(3);
        let Recipe::Gathered(buckets) = &part.recipe[0] else { panic!("{part:?}") };
        assert_eq!((biases().distances(), buckets.len()), (183, 183));
        assert_eq!((buckets[0], buckets[90], buckets[91], buckets[92], buckets[182]), (15, 1, 0, 17, 31));
        assert_eq!((&part.recipe[1..], part.shape), (&[Recipe::Transposed][..], Some(vec![32, 3])));
    }
}
