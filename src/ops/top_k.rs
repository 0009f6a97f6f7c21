//! The largest elements of each row, and where they are.

use super::signature::Role;
use super::{Counts, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// `y` lists the `count` largest elements of each row of `x`, the largest first, `places` their columns; of equal elements
/// the first column comes first, and NaN counts as the largest. Columns whose `mask` is 0 are left out; where fewer than
/// `count` are left, the last of `y` are negative infinity, with the place -1.
///
/// Operands: `x [..., K]`, then, if columns are left out, `mask [K]`. Results: `y [..., count]`, `places [..., count]` (int32).
/// Same bits everywhere: elements are compared alone. -0 is given as 0.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopK {
    /// Number of elements, from 1 to `K`.
    pub count: usize,
}

impl TopK {
    /// The most columns of a part: a workgroup's steps are few enough for any driver.
    pub(crate) const LONGEST: usize = 1 << 16;

    /// The parts of a row, and the columns of each: at most [`TopK::LONGEST`], fewer where there are few rows.
    pub(crate) fn parts(&self, rows: usize, columns: usize) -> (usize, usize) {
        /// Workgroups that keep a large device busy.
        const BUSY: usize = 1024;
        let most = Self::LONGEST;
        let busy = (rows * columns).div_ceil(BUSY).next_power_of_two();
        // Parts are joined in one step, which takes as many columns as a part has.
        let joined = (columns * self.count).div_ceil(most).next_power_of_two();
        let part = busy.max(joined).max(8 * self.count.next_power_of_two()).clamp(1 << 12, most);
        (columns.div_ceil(part).max(1), part)
    }
}

impl Operation for TopK {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::CHOICE);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"count": 1}"#, &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("x"), Operand::new("mask", Role::Mask).optional()])
        .gives(&[Operand::rows("y"), Operand::column_or_none("places", "x").stored(DType::I32)])
        .scratch(&["parts", "part_places"])
        .sized();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let x = &of["x"];
        if x.0.is_empty() {
            return Err(of.wrong("x", "[..., K]"));
        }
        let columns = x.columns();
        if !(1..=columns).contains(&self.count) {
            return Err(of.fault(format!("count is {}, expected 1 to {columns}, the columns", self.count)));
        }
        of.expect("mask", &Shape::fixed(&[columns]), "columns of x")?;
        Ok(vec![x.with_columns(self.count), x.with_columns(self.count)])
    }

    /// What is found in the parts of rows.
    fn scratch(&self, operands: &[&Shape], _: DType) -> Vec<Shape> {
        let columns = operands[0].columns();
        let rows = operands[0].elements(Counts::default()) / columns.max(1);
        let (parts, _) = self.parts(rows, columns);
        let found = Shape::fixed(&[if parts > 1 { rows * parts * self.count } else { 0 }]);
        vec![found.clone(), found]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_row_are_joined_in_one_step() {
        for count in [1, 10, 100, 1000, 1024] {
            for columns in [1024, 4097, 65_537, 1_000_000, 4_000_000] {
                for rows in [1, 7, 1000] {
                    let (parts, part) = TopK { count }.parts(rows, columns);
                    assert!(part <= 65_536 && parts * part >= columns && (parts - 1) * part < columns);
                    assert!(parts * count <= 65_536, "{count} of {columns}");
                }
            }
        }
    }
}
