//! Rows of numbers as integers of 24 bits with an exponent, whose products are exact sums: the operands of products where
//! results have the same bits on every device ([`Numerics::Everywhere`](crate::numerics::Numerics)).

/// The exponent of a row with a NaN or an infinity, whose integers mean nothing.
pub const NOT_FINITE: i32 = i32::MAX;

/// The least factor of a column is `2^LEAST_BALANCE`.
const LEAST_BALANCE: i32 = -250;
/// Mantissas from here on, of 2^23, are halved: rounded, 127.5 2^16 and more is no number of three signed bytes.
const CARRY: i64 = 65_793;
/// Places of an integer after the highest bit of a row's largest.
pub const PLACES: i32 = 22;

/// The operand of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `x`, of which column `k` counts `2^b[k]` times.
    Rows,
    /// The weight, of which it counts `2^-b[k]` times.
    Weight,
}

/// The largest magnitude in each column of a weight.
#[derive(Debug, Clone)]
pub struct Columns(Vec<u32>);

impl Columns {
    /// So many columns without rows.
    pub fn new(columns: usize) -> Self {
        Columns(vec![0; columns])
    }

    /// Adds elements from the column `first` on, row by row.
    pub fn add(&mut self, first: usize, elements: &[f32]) {
        let columns = self.0.len();
        let mut at = first % columns.max(1);
        for x in elements {
            self.0[at] = self.0[at].max(magnitude(*x));
            at = if at + 1 == columns { 0 } else { at + 1 };
        }
    }

    /// Adds what other rows of the same columns have.
    ///
    /// ```
    /// use grilly::quant::everywhere::Columns;
    /// let [mut one, mut other] = [0, 1].map(|_| Columns::new(1));
    /// one.add(0, &[0.0]);
    /// other.add(0, &[3.0]);
    /// one.join(&other);
    /// assert_eq!(one.balance(), [0]);
    /// ```
    pub fn join(&mut self, other: &Columns) {
        self.0.iter_mut().zip(&other.0).for_each(|(most, x)| *most = (*x).max(*most));
    }

    /// The balance `b[k] <= 0`: columns of `x` by `2^b[k]`, of the weight by `2^-b[k]`. Of the exponents of the columns'
    /// largest magnitudes, `c[k]`, let `m` be the one of those that are not 0 which a tenth exceeds, at index `9 (count - 1) / 10`
    /// in order: it is `min(c[k] - m, 0)`, at least -250, and -250 for a column of zeros.
    ///
    /// ```
    /// use grilly::quant::everywhere::Columns;
    /// let mut columns = Columns::new(4);
    /// columns.add(0, &[1.0, 0.25, 0.0, -8.0, 0.5, 0.03125, 0.0, 1.0]);
    /// assert_eq!(columns.balance(), [0, -2, -250, 0]);
    /// ```
    pub fn balance(&self) -> Vec<i32> {
        let exponents = self.0.iter().map(|bits| (bits >> 23) as i32);
        let mut known: Vec<i32> = exponents.clone().filter(|c| *c > 0).collect();
        known.sort_unstable();
        let usual = known.get(9 * known.len().saturating_sub(1) / 10).copied().unwrap_or(0);
        let balance = |c: i32| if c == 0 { LEAST_BALANCE } else { (c - usual).clamp(LEAST_BALANCE, 0) };
        exponents.map(balance).collect()
    }
}

/// Writes the integers `q[k] = round(x[k] 2^(b[k] + 22 - E))` of a row, to the nearest, ties to even, and returns the exponent
/// `E` with which the largest has 22 or 23 bits; `-b[k]` for a weight, and 0 for an empty `balance`. Subnormal numbers count
/// as 0; a row of zeros has `E = 0`, one with a NaN or an infinity [`NOT_FINITE`].
///
/// ```
/// use grilly::quant::everywhere::{Side, integers};
/// let mut q = [0; 3];
/// let exponent = integers(&[1.5, -0.25, 1e-30], &[], Side::Rows, &mut q);
/// assert_eq!((exponent, q), (0, [3 << 21, -(1 << 20), 0]));
/// ```
pub fn integers(row: &[f32], balance: &[i32], side: Side, out: &mut [i32]) -> i32 {
    let balance = |k: usize| match side {
        Side::Rows => balance.get(k).copied().unwrap_or(0),
        Side::Weight => -balance.get(k).copied().unwrap_or(0),
    };
    let (mut most, mut largest) = (None, 0);
    for (k, x) in row.iter().enumerate() {
        let bits = magnitude(*x);
        largest = largest.max(bits);
        if bits >> 23 > 0 {
            most = most.max(Some(i64::from(bits) + (i64::from(balance(k)) << 23)));
        }
    }
    if largest >> 23 == 0xff {
        out.fill(0);
        return NOT_FINITE;
    }
    let exponent = most.map_or(0, |most| ((most + CARRY) >> 23) as i32 - 127);
    for (k, (x, q)) in row.iter().zip(out).enumerate() {
        *q = scaled(*x, balance(k) + PLACES - exponent);
    }
    exponent
}

/// `x 2^shift` to the nearest integer, ties to even, where it is less than 2^24; 0 of a subnormal number.
fn scaled(x: f32, shift: i32) -> i32 {
    let bits = magnitude(x);
    if bits >> 23 == 0 {
        return 0;
    }
    let mantissa = ((bits & 0x007f_ffff) | 0x0080_0000) as i32;
    // A mantissa counts in units of 2^(exponent - 150); from 25 places on less than half is left.
    let places = (150 - (bits >> 23) as i32 - shift).clamp(0, 25);
    let half = (1 << places >> 1) - 1 + ((mantissa >> places) & 1);
    let q = if places == 0 { mantissa } else { (mantissa + half) >> places };
    if x.is_sign_negative() { -q } else { q }
}

fn magnitude(x: f32) -> u32 {
    x.to_bits() & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_the_nearest_and_the_largest_have_three_signed_bytes() {
        let most = f32::from_bits(0x3fff_0000 - 258 + 1);
        for largest in
            [1.0, 1.9921875, 1.992_156, f32::from_bits(0x3ffe_feff - 1), most, 1.999_999_9, f32::MAX, 1.2e-38]
        {
            let row: Vec<f32> =
                (0..77).map(|i| largest * (1.0 - i as f32 / 50.0) * 2f32.powi(-(i % 29))).chain([largest]).collect();
            let mut q = vec![0; row.len()];
            let exponent = integers(&row, &[], Side::Rows, &mut q);
            for (x, q) in row.iter().zip(&q) {
                let normal = if x.is_normal() { f64::from(*x) } else { 0.0 };
                assert_eq!(
                    f64::from(*q),
                    (normal * 2f64.powi(22 - exponent)).round_ties_even(),
                    "{x:e} of {largest:e}"
                );
                assert!(q.abs() <= 8_355_711, "{q} of {largest:e}");
            }
            assert!(q.iter().map(|q| q.abs()).max().unwrap() >= 1 << 21, "{largest:e}");
        }
    }

    #[test]
    fn a_balance_leaves_products_as_they_are() {
        let columns = 5;
        let weight = [1.0f32, 2.0f32.powi(-40), 3.0, 0.0, 1e-38, -1.5, 2.0f32.powi(-39), 0.1, 0.0, 0.0];
        let mut of = Columns::new(columns);
        of.add(0, &weight[..3]);
        of.add(3, &weight[3..]);
        let balance = of.balance();
        assert_eq!(balance, [0, -39, 0, -250, -250]);
        let x = [1.0f32, 2.0f32.powi(50), 0.5, 3e38, 1e30];
        let (mut qx, mut qw) = (vec![0; columns], vec![0; columns]);
        let ex = integers(&x, &balance, Side::Rows, &mut qx);
        let ew = integers(&weight[..columns], &balance, Side::Weight, &mut qw);
        let sum: i64 = qx.iter().zip(&qw).map(|(x, w)| i64::from(*x) * i64::from(*w)).sum();
        let exact: f64 = x.iter().zip(&weight).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
        assert!(((sum as f64) * 2f64.powi(ex + ew - 44) / exact - 1.0).abs() < 1e-6);
    }

    #[test]
    fn zeros_and_what_is_not_finite_are_told() {
        let mut q = [7; 3];
        assert_eq!((integers(&[0.0, -0.0, 1e-39], &[], Side::Rows, &mut q), q), (0, [0; 3]));
        assert_eq!(integers(&[0.0, f32::NAN, 1.0], &[], Side::Rows, &mut q), NOT_FINITE);
        assert_eq!(integers(&[0.0, f32::NEG_INFINITY, 1.0], &[-3; 3], Side::Weight, &mut q), NOT_FINITE);
        assert!(Columns::new(0).balance().is_empty());
    }
}
