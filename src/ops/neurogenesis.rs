//! Growth of a layer by the residual of Oja's rule.

use super::definition::{Origin, Step};
use super::grow_unit::{RESULTS, STATES, check};
use super::{
    Binary, BinaryKind, Counts, GrowUnit, Linear, Matmul, Operand, Operation, Reduce, ReduceKind, Shape, Shapes,
    Signature,
};
use crate::Result;

/// Adds a unit to a layer if too much of the energy of a batch is left in the residual of Oja's rule, `r = x - y weight` with
/// `y = x weight^T`: [`GrowUnit`] of `r` with the sum of its squares beside that of `x`. Rows of `weight` that are no units yet are
/// zeros.
///
/// Operands: `weight [N, K]`, `units []`, `x [B, K]`. Results: `weight` and `units`, updated in place, and `share []`, the share of
/// the energy that was left.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Neurogenesis {
    /// As [`GrowUnit::threshold`].
    pub threshold: f32,
}

impl Default for Neurogenesis {
    fn default() -> Self {
        Neurogenesis { threshold: GrowUnit::default().threshold }
    }
}

impl Operation for Neurogenesis {
    const NO_DERIVATIVE: Option<&'static str> = Some("it updates weights");
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[3, 4], &[], &[5, 4]], &[])];
    const SIGNATURE: Signature = Signature::of(&[STATES[0], STATES[1], Operand::rows("x")]).gives(&RESULTS).sized();

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        check(of, "x")
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let [weight, units, x] = [0, 1, 2].map(Origin::Operand);
        let all = Shape::fixed(&[operands[2].elements(Counts::default())]);
        let [activities, known, residual, squares, energy, left, of_all, total] =
            [0, 1, 2, 3, 4, 5, 6, 7].map(Origin::Step);
        let binary = |kind: BinaryKind, of: [Origin; 2]| Step::new(Binary::from(kind), &of);
        Ok(vec![
            Step::new(Linear::default(), &[x, weight]),
            Step::new(Matmul::default(), &[activities, weight]),
            binary(BinaryKind::Subtract, [x, known]),
            binary(BinaryKind::Multiply, [residual; 2]),
            Step::new(Reduce::along(1, ReduceKind::Sum), &[squares]),
            Step::new(Reduce::rows(ReduceKind::Sum), &[energy]),
            binary(BinaryKind::Multiply, [x; 2]),
            Step::new(Reduce::rows(ReduceKind::Sum), &[of_all]).viewing(0, all),
            Step::new(GrowUnit { threshold: self.threshold }, &[weight, units, residual, energy, left, total]),
        ])
    }
}
