//! Vectors by the distance of two tokens, which queries and keys meet: stored per bucket, read per distance.

use super::parts::Table;
use crate::numerics::portable::ln;
use crate::tensor::{Part, Recipe};

/// DeBERTa's table of vectors (He et al. 2021), one row per bucket of distances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distances {
    /// The table.
    pub table: Table,
    /// Its row for each distance of a key from its query, from `-D` to `D`; farther keys have the rows of these.
    pub rows: Vec<usize>,
    /// Norm of its rows.
    pub norm: Option<String>,
}

impl Distances {
    /// The rows of `table` for distances below `longest`. The first `span` rows are for keys after the query, the
    /// others for the query itself and keys before it.
    ///
    /// With `buckets`, half of a side's rows are for one distance each; with `mid` of them, a larger distance `d` is
    /// `mid + ceil((mid - 1) log(d / mid) / log((farthest - 1) / mid))` rows away. Reference:
    /// `make_log_bucket_position` of transformers' DeBERTa-v2.
    pub fn new(table: Table, buckets: Option<usize>, farthest: usize, longest: usize) -> Self {
        let span = table.rows as i64 / 2;
        let away = |length: i64| match buckets.map(|buckets| buckets as i64 / 2) {
            // In float32 as in the reference, so that a distance at a bucket boundary is assigned to the same bucket.
            Some(mid) if length > mid => {
                let log = |x: f32| ln(f64::from(x)) as f32;
                let most = ((farthest as f64 - 1.0) / mid as f64) as f32;
                let share = log(length as f32 / mid as f32) / log(most);
                (share * (mid - 1) as f32).ceil() as i64 + mid
            }
            _ => length,
        };
        let row = |distance: i64| (span - distance.signum() * away(distance.abs())).clamp(0, 2 * span - 1) as usize;
        // On this side the last row is reached later.
        let reach = (0..longest as i64).find(|distance| row(*distance) == 0).unwrap_or(longest as i64 - 1);
        Distances { rows: (-reach..=reach).map(row).collect(), table, norm: None }
    }

    /// The vectors that attention reads, `[2 D + 1, columns]`.
    pub fn part(&self, columns: usize) -> Part {
        Part::new(&self.table.name, &[self.table.rows, columns], vec![Recipe::Gathered(self.rows.clone())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: usize, buckets: Option<usize>, farthest: usize, longest: usize) -> Vec<usize> {
        Distances::new(Table { name: "vectors".into(), rows }, buckets, farthest, longest).rows
    }

    #[test]
    fn float32_logarithms_of_the_platform_give_the_same_buckets() {
        for (buckets, farthest) in
            [(4, 6), (16, 128), (32, 128), (32, 512), (64, 512), (256, 512), (256, 1024), (512, 2048)]
        {
            let (found, mid) = (rows(2 * buckets, Some(buckets), farthest, farthest), buckets / 2);
            let reach = found.len() / 2;
            for length in mid + 1..=reach {
                let most = ((farthest as f64 - 1.0) / mid as f64) as f32;
                let share = (length as f32 / mid as f32).ln() / most.ln();
                let away = (share * (mid - 1) as f32).ceil() as usize + mid;
                assert_eq!(
                    found[reach - length],
                    (buckets + away).min(2 * buckets - 1),
                    "{buckets} {farthest} {length}"
                );
            }
        }
    }

    #[test]
    fn buckets_are_the_references() {
        let found = rows(512, Some(256), 512, 512);
        assert_eq!((found.len(), found[511]), (1023, 256));
        // Buckets of some distances, found with transformers 5.23.
        let buckets = [(1, 1), (128, 128), (131, 131), (200, 169), (255, 192), (300, 207), (400, 233), (500, 254)];
        for (distance, bucket) in buckets.into_iter().chain([(510, 255), (511, 255)]) {
            assert_eq!((found[511 - distance], found[511 + distance]), (256 + bucket, 256 - bucket), "{distance}");
        }
        assert_eq!(rows(10, None, 5, 100), [9, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
        assert_eq!(rows(10, None, 5, 3), [7, 6, 5, 4, 3]);
        // The last distances of a side share its last row; the far side has one more.
        assert_eq!(rows(8, Some(4), 6, 9), [7, 7, 7, 7, 6, 5, 4, 3, 2, 1, 1, 1, 0]);
    }
}
