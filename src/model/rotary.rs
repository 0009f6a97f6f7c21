//! Rotary positions (Su et al. 2021): the tables of cosines and sines that a model's layers read.

use crate::tensor::Part;

/// One kind of rotary positions: pairs of columns turn by `position * frequency`.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotary {
    /// One frequency per pair, in radians per position.
    pub frequencies: Vec<f32>,
    /// Factor on cosines and sines.
    pub scale: f32,
}

impl Rotary {
    /// Frequencies `base^(-2 i / columns)` of pair `i`, for heads of which `columns` columns turn.
    pub fn new(base: f64, columns: usize) -> Self {
        // In float32 as in the reference.
        let frequency = |pair: usize| 1.0 / base.powf(f64::from((2 * pair) as f32 / columns as f32)) as f32;
        Rotary { frequencies: (0..columns / 2).map(frequency).collect(), scale: 1.0 }
    }

    /// Cosines and sines `[rows, columns / 2]` of positions `0 .. rows`; `name` is that of the kind of positions.
    pub fn tables(&self, name: &str, rows: usize) -> [Part; 2] {
        [("cosines", f64::cos as fn(f64) -> f64), ("sines", f64::sin)].map(|(what, function)| {
            // The product is rounded to float32, as in the reference.
            let angles = (0..rows).flat_map(|row| self.frequencies.iter().map(move |f| f64::from(row as f32 * f)));
            let values = angles.map(|angle| function(angle) as f32 * self.scale);
            Part::computed(format!("{name} {what}"), &[rows, self.frequencies.len()], values)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_hold_the_angles_of_each_position() {
        let rotary = Rotary::new(10_000.0, 4);
        assert_eq!(rotary.frequencies, [1.0, 0.01]);
        let [cosines, sines] = rotary.tables("rotary", 3);
        let read = |part: &Part| -> Vec<f32> {
            let bytes = part.computed.as_deref().unwrap();
            bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
        };
        assert_eq!(cosines.shape, Some(vec![3, 2]));
        assert_eq!(read(&cosines)[2..4], [1f32.cos(), 0.01f32.cos()]);
        assert_eq!(read(&sines), [0.0, 0.0, 1f32.sin(), 0.01f32.sin(), 2f32.sin(), 0.02f32.sin()]);
    }
}
