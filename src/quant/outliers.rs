//! Weights beside which 8-bit integers lose all others.

/// How many times the root mean square of the other numbers of its row such a weight is.
const TIMES: f64 = 300.0;
/// What it exceeds, too: a bias of zeros but for one small number is none. Trained models have weights of 8 that are 270 times
/// the others, and lose nothing.
const LEAST: f32 = 64.0;

/// The place of a number of a row that is so large that the others are lost where products round their rows: in this one, or
/// in those that read its result, of which it is nearly all.
///
/// ```
/// use grilly::quant::outliers::outlier;
/// let mut row = [0.125; 64];
/// assert_eq!(outlier(&row), None);
/// row[9] = -1e4;
/// assert_eq!(outlier(&row), Some(9));
/// row.fill(1e4);
/// assert_eq!(outlier(&row), None);
/// ```
pub fn outlier(row: &[f32]) -> Option<usize> {
    // Most rows have none, as their largest magnitude shows; it is found on integers, which the compiler vectorizes.
    let most = f32::from_bits(row.iter().map(|x| x.abs().to_bits()).fold(0, u32::max));
    if most <= LEAST || row.len() < 2 {
        return None;
    }
    let place = row.iter().position(|x| x.abs() == most)?;
    let others = row.iter().enumerate().filter(|(i, _)| *i != place);
    let squares: f64 = others.map(|(_, x)| f64::from(*x) * f64::from(*x)).sum();
    (f64::from(most) * f64::from(most) > TIMES * TIMES * squares / (row.len() - 1) as f64).then_some(place)
}
