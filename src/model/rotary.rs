//! Rotary positions (Su et al. 2021): the tables of cosines and sines that a model's layers read.

use super::parts::PositionRows;
use crate::Result;
use crate::numerics::portable;
use crate::tensor::Part;
use crate::tensor::Recipe::{Rows, Transposed};

/// One kind of rotary positions: pairs of columns turn by `position * frequency`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rotary {
    /// One frequency per pair, in radians per position.
    pub frequencies: Vec<f32>,
    /// Factor on cosines and sines.
    pub scale: f32,
    /// Other frequencies for texts of more than so many tokens.
    pub long: Option<(usize, Vec<f32>)>,
    /// What positions are divided by, in float64, in place of products with the frequencies; empty for none.
    pub divisors: Vec<f64>,
    /// The checkpoint's own table, if it has one: of each position the sines, then the cosines.
    pub stored: Option<String>,
    /// Whether values turn, too, as queries and keys do.
    pub values: bool,
}

impl Rotary {
    /// Frequencies `base^(-2 i / columns)` of pair `i`, for heads of which `columns` columns turn.
    pub fn new(base: f64, columns: usize) -> Self {
        // In float32 as in the reference.
        let frequency = |pair: usize| 1.0 / portable::powf(base, f64::from((2 * pair) as f32 / columns as f32)) as f32;
        Rotary { frequencies: (0..columns / 2).map(frequency).collect(), scale: 1.0, ..Rotary::default() }
    }

    /// As [`Rotary::new`] with a base of 10,000 and angles in float64, as the table of Vaswani et al. 2017 is made.
    pub fn sinusoids(columns: usize) -> Self {
        let divisor = |pair: usize| portable::powf(10_000.0, (2 * pair) as f64 / columns as f64);
        Rotary { divisors: (0..columns / 2).map(divisor).collect(), ..Rotary::new(10_000.0, columns) }
    }

    /// With other frequencies, each computed from its pair and the one that it had.
    pub fn changed(mut self, change: impl Fn(usize, f32) -> f32) -> Self {
        self.frequencies.iter_mut().enumerate().for_each(|(pair, frequency)| *frequency = change(pair, *frequency));
        self
    }

    /// The rows of the tables that the tokens of a text read, and their number for texts of up to `longest` tokens.
    pub fn rows(&self, longest: usize) -> (PositionRows, usize) {
        match &self.long {
            Some((most, _)) if *most < longest => (PositionRows::ByLength { most: *most as u32 }, most + longest),
            _ => (PositionRows::Counted, longest),
        }
    }

    /// Cosines and sines `[rows, columns / 2]` of positions `0 .. longest`, after those of the shorter texts if these have
    /// other frequencies; `name` is that of the kind of positions.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub fn tables(&self, name: &str, longest: usize) -> Result<[Part; 2]> {
        let (places, rows) = self.rows(longest);
        let pairs = self.frequencies.len();
        if let Some(name) = &self.stored {
            let half = |columns| Part::new(name, &[rows, 2 * pairs], vec![Transposed, Rows(columns), Transposed]);
            return Ok([half(pairs..2 * pairs), half(0..pairs)]);
        }
        let table = |what: &str, function: fn(f64) -> f64| {
            // The product is rounded to float32, as in the reference.
            let angles = (0..rows).flat_map(|row| {
                let (position, frequencies) = match (places, &self.long) {
                    (PositionRows::ByLength { .. }, Some((most, long))) if row >= *most => (row - most, long),
                    _ => (row, &self.frequencies),
                };
                (0..pairs).map(move |pair| match self.divisors.get(pair) {
                    Some(divisor) => position as f64 / divisor,
                    None => f64::from(position as f32 * frequencies[pair]),
                })
            });
            let values = angles.map(|angle| function(angle) as f32 * self.scale);
            Part::table(format!("{name} {what}"), &[rows, pairs], values)
        };
        Ok([table("cosines", portable::cos)?, table("sines", portable::sin)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(part: &Part) -> Vec<f32> {
        let bytes = part.computed.as_deref().unwrap();
        bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
    }

    #[test]
    fn tables_hold_the_angles_of_each_position() {
        let rotary = Rotary::new(10_000.0, 4);
        assert_eq!(rotary.frequencies, [1.0, 0.01]);
        let [cosines, sines] = rotary.tables("rotary", 3).unwrap();
        assert_eq!(cosines.shape, Some(vec![3, 2]));
        assert_eq!(read(&cosines)[2..4], [1f32.cos(), 0.01f32.cos()]);
        assert_eq!(read(&sines), [0.0, 0.0, 1f32.sin(), 0.01f32.sin(), 2f32.sin(), 0.02f32.sin()]);
    }

    #[test]
    fn the_table_of_sinusoids_has_angles_in_float64() {
        let [cosines, sines] = Rotary::sinusoids(6).tables("rotary", 1500).unwrap();
        let angles = [1499.0, 1499.0 / 10_000f64.powf(2.0 / 6.0), 1499.0 / 10_000f64.powf(4.0 / 6.0)];
        assert_eq!(read(&cosines)[3 * 1499..], angles.map(|angle| angle.cos() as f32));
        assert_eq!(read(&sines)[3 * 1499..], angles.map(|angle| angle.sin() as f32));
    }

    #[test]
    fn long_texts_have_rows_of_their_own() {
        let rotary = Rotary { frequencies: vec![1.0], scale: 2.0, long: Some((2, vec![0.5])), ..Rotary::default() };
        let [_, sines] = rotary.tables("rotary", 3).unwrap();
        let double = |angle: f32| 2.0 * angle.sin();
        assert_eq!(read(&sines), [0.0, double(1.0), 0.0, double(0.5), double(1.0)]);
        let [_, sines] = rotary.tables("rotary", 2).unwrap();
        assert_eq!((read(&sines), rotary.rows(2)), (vec![0.0, double(1.0)], (PositionRows::Counted, 2)));
    }
}
