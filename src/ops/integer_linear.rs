//! A product of 8-bit integers with integers of 8, 2 or 1 bits.

use super::levels::Levels;
use super::{Counts, Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// `y[m, n] = sum_k q[m, k] weight[n, k]`, exact: 32-bit sums hold every `K` below 2^17.
///
/// Operands: `q [..., K]` (int8), `weight [N, K]` (int8), or packed `[N, ceil(K / 4)]` and `[N, ceil(K / 8)]` (uint8).
/// Result: `[..., N]` (int32).
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IntegerLinear {
    /// The values of the weight.
    pub levels: Levels,
}

/// The smallest `K` at which the sum of the largest products overflows: `K 2^14 = 2^31`.
pub(super) const TOO_LONG: usize = 1 << 17;

/// The number of rows of a weight that fits rows of integers.
///
/// # Errors
/// `InvalidArgument` naming the operand.
pub(super) fn rows_of_weight(levels: Levels, of: &Shapes<'_>) -> Result<usize> {
    let (q, weight) = (&of["q"], &of["weight"]);
    let [Dim::Fixed(n), Dim::Fixed(bytes)] = weight.0[..] else { return Err(of.wrong("weight", "two fixed axes")) };
    let k = q.columns();
    if q.0.is_empty() || levels.bytes(k) != bytes {
        let expected = if levels == Levels::Int8 {
            format!("last axis {bytes} (weight {weight})")
        } else {
            format!("a last axis whose values fill {bytes} bytes (weight {weight})")
        };
        return Err(of.wrong("q", expected));
    }
    if k >= TOO_LONG {
        return Err(
            of.fault(format!("K is {k}, of which sums of 32 bits cannot hold every product; most {}", TOO_LONG - 1))
        );
    }
    Ok(n)
}

impl Operation for IntegerLinear {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::INTEGERS);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    fn signature(&self) -> Signature {
        const Q: Operand = Operand::rows("q").stored(DType::I8);
        const BYTES: Operand = Operand::matrix("weight").stored(DType::I8);
        const PACKED: Operand = Operand::matrix("weight").stored(DType::U8);
        const Y: Operand = Operand::rows("y").stored(DType::I32);
        Signature::of(if self.levels == Levels::Int8 { &[Q, BYTES] } else { &[Q, PACKED] }).gives(&[Y])
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        Ok(vec![of["q"].with_columns(rows_of_weight(self.levels, of)?)])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[0].elements(counts) as u64 * operands[1].rows().size(counts) as u64
    }
}
