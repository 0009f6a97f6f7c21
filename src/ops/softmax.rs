//! Softmax over the last axis with an optional mask.

use super::binary::{BroadcastAxis, axes, merged};
use super::signature::Role;
use super::{Dim, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;

/// `y = e^x / sum e^x` over the entries of the last axis that are not masked; 0 at masked entries and in rows that are
/// all masked.
///
/// Operands: `x [..., N]`, then optionally `keep` (integers; 0 masks an entry), which broadcasts to `x`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Softmax {
    /// Whether entry `j` is kept only in rows `i >= j` of axis -2; default false.
    pub causal: bool,
    /// Whether `x` is a sum with a mask: a row of negative infinity alone, whose softmax is NaN, is then all masked, too;
    /// default false.
    pub masked: bool,
}

impl Softmax {
    /// Columns of the longest row that is one part.
    const LONGEST: usize = 12_288;
    /// Rows that are as many workgroups as keep a GPU busy.
    const MANY: usize = 512;

    /// Parts of a row, and columns of each but the last: multiples of 1,024 in equal parts. So are the sums of long rows cut, by
    /// the columns alone.
    pub(crate) fn parts(columns: usize) -> [usize; 2] {
        let fewest = columns.div_ceil(Self::LONGEST).max(1);
        let part = columns.div_ceil(1024 * fewest).max(1) * 1024;
        [columns.div_ceil(part).max(1), part]
    }
}

/// Strides of `keep` over the rows of `x`, with the rows as three axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broadcast {
    /// Sizes of the three axes of rows.
    pub sizes: [usize; 3],
    /// Strides of `keep` in elements along each; 0 where it is broadcast.
    pub steps: [usize; 3],
    /// Whether `keep` has an element per column; otherwise one element serves all columns.
    pub by_column: bool,
}

impl Broadcast {
    /// Index in `keep` of the first element of row `row`.
    pub fn start(&self, row: usize) -> usize {
        let [_, b, c] = self.sizes;
        row / (b * c) * self.steps[0] + row / c % b * self.steps[1] + row % c * self.steps[2]
    }

    /// The strides of `keep` over `x`; `None` when it does not broadcast or needs more than three axes of rows.
    pub fn of(x: &Shape, keep: &Shape) -> Option<Broadcast> {
        let mut axes = axes(x, keep)?.into_iter();
        let by_column = axes.next().is_some_and(|axis| axis.stride == 1);
        let mut rows = merged(axes);
        if rows.len() > 3 {
            return None;
        }
        // The size of the first axis, which a batch may count, is not used.
        rows.reverse();
        rows.resize(3, BroadcastAxis { size: 1, stride: 0 });
        let (sizes, steps) = ([0, 1, 2].map(|axis| rows[axis].size), [0, 1, 2].map(|axis| rows[axis].stride));
        Some(Broadcast { sizes, steps, by_column })
    }
}

impl Operation for Softmax {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        ("{}", &[&[2, 3, 4]], &[0]),
        ("{}", &[&[2, 3, 4], &[4]], &[0]),
        (r#"{"masked": true}"#, &[&[2, 3, 4], &[3, 4]], &[0]),
    ];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("x").narrow(), Operand::new("keep", Role::Mask).optional()])
            .scratch(&["parts"])
            .flops(5);

    /// The largest element of each part and the sum of its exponentials, where long rows are few.
    fn scratch(&self, operands: &[&Shape], _: DType) -> Vec<Shape> {
        let Some((rows, columns)) = operands[0].as_rows() else { return Vec::new() };
        let [parts, _] = Softmax::parts(columns);
        if parts == 1 || rows >= Softmax::MANY { Vec::new() } else { vec![Shape::fixed(&[rows, parts, 2])] }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let x = &of["x"];
        let sized = |rows: Dim| matches!(rows, Dim::Fixed(_)) || rows.is_length();
        if self.causal && !matches!(x.0[..], [.., rows, _] if sized(rows)) {
            return Err(of.wrong("x", "rows and columns for causal"));
        }
        if of.get("keep").is_some_and(|keep| Broadcast::of(x, keep).is_none()) {
            return Err(of.wrong("keep", format!("one that broadcasts to {x} over at most 4 axes")));
        }
        Ok(vec![x.clone()])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        let result = operands.len();
        Vjp::single(operands.len(), SoftmaxBackward {}, result..result + 1)
    }
}

/// `p (g - sum(g p))`: the gradient in `x` of a [`Softmax`] whose result was `p`. Operands: `g [..., N]`, `p [..., N]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoftmaxBackward {}

impl Operation for SoftmaxBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 3, 4], &[2, 3, 4]], &[])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("g"), Operand::rows("p").like("g")]).flops(4);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rows_are_in_equal_parts_by_their_columns() {
        let found = [0, 8193, 12_288, 12_289, 30_522, 151_936, 1 << 24].map(Softmax::parts);
        let expected = [[1, 1024], [1, 9216], [1, 12_288], [2, 7168], [3, 10_240], [13, 12_288], [1366, 12_288]];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_mask_lies_over_rows_as_numpy_broadcasts() {
        let of = |x: &[usize], keep: &[usize]| Broadcast::of(&Shape::fixed(x), &Shape::fixed(keep));
        let same = of(&[2, 3, 4, 5], &[2, 3, 4, 5]).unwrap();
        assert_eq!((same.sizes, same.steps, same.by_column), ([24, 1, 1], [5, 0, 0], true));
        let keys = of(&[2, 3, 4, 5], &[2, 1, 1, 5]).unwrap();
        assert_eq!((keys.sizes, keys.steps), ([2, 12, 1], [5, 0, 0]));
        assert_eq!((0..24).map(|row| keys.start(row)).collect::<Vec<_>>(), [[0; 12], [5; 12]].concat());
        let middle = of(&[2, 3, 4, 5], &[3, 1, 5]).unwrap();
        assert_eq!((middle.sizes, middle.steps), ([2, 3, 4], [0, 5, 0]));
        let one = of(&[2, 5], &[1]).unwrap();
        assert_eq!((one.steps, one.by_column), ([0, 0, 0], false));
        assert!(of(&[4], &[2, 4]).is_none() && of(&[4, 6], &[3]).is_none());
        // Rows that alternate four times between broadcast and not broadcast.
        assert!(of(&[2, 2, 2, 2, 2, 5], &[2, 1, 2, 1, 2, 5]).is_none());
    }
}
