//! A product of 8-bit integers.

use super::{Counts, Dim, Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// `y[m, n] = sum_k q[m, k] weight[n, k]`, exact: 32-bit sums hold every `K` below 2^17.
///
/// Operands: `q [..., K]` (int8), `weight [N, K]` (int8). Result: `[..., N]` (int32).
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntegerLinear {}

/// The smallest `K` at which the sum of the largest products overflows: `K 2^14 = 2^31`.
const TOO_LONG: usize = 1 << 17;

impl Operation for IntegerLinear {
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("q").stored(DType::I8), Operand::rows("weight").stored(DType::I8)])
            .gives(&[Operand::rows("y").stored(DType::I32)]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let (q, weight) = (&of["q"], &of["weight"]);
        let [Dim::Fixed(n), Dim::Fixed(k)] = weight.0[..] else { return Err(of.wrong("weight", "[N, K]")) };
        if q.columns() != k || q.0.is_empty() {
            return Err(of.wrong("q", format!("last axis {k} (weight {weight})")));
        }
        if k >= TOO_LONG {
            return Err(of.fault(format!(
                "K is {k}, of which sums of 32 bits cannot hold every product; most {}",
                TOO_LONG - 1
            )));
        }
        Ok(vec![q.with_columns(n)])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        2 * operands[0].elements(counts) as u64 * operands[1].rows().size(counts) as u64
    }
}
