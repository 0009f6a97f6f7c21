//! A new unit in the direction of what the units so far leave over.

use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// Adds a unit to a layer where the units so far leave over too much: if `left > threshold total` and `0 <= units < N`, row `units`
/// of `weight` becomes the row of `residual` of largest energy, the first of equal ones, divided by the square root of its energy,
/// and `units` grows by 1.
///
/// Operands: `weight [N, K]`, of which the first `units []` rows are units, `residual [B, K]`, `energy [B]`, the squared norms of its
/// rows, `left []`, their sum, and `total []`, with which that is compared. Results: `weight` and `units`, updated in place, and
/// `share [] = left / total`, or 0 if `total` is not above 0.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrowUnit {
    /// The share of the energy above which a unit is added; default 0.001.
    pub threshold: f32,
}

impl Default for GrowUnit {
    fn default() -> Self {
        GrowUnit { threshold: 1e-3 }
    }
}

pub(super) const STATES: [Operand; 2] =
    [Operand::rows("weight").stored(DType::F32), Operand::scalar("units").stored(DType::F32)];
pub(super) const RESULTS: [Operand; 3] = [STATES[0], STATES[1], Operand::scalar("share").stored(DType::F32)];

impl Operation for GrowUnit {
    const NO_DERIVATIVE: Option<&'static str> = Some("it updates weights");
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[3, 4], &[], &[5, 4], &[5], &[], &[]], &[])];
    const SIGNATURE: Signature = Signature::of(&[
        STATES[0],
        STATES[1],
        Operand::rows("residual"),
        Operand::rows("energy"),
        Operand::scalar("left"),
        Operand::scalar("total"),
    ])
    .gives(&RESULTS);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let results = check(of, "residual")?;
        of.expect("energy", &Shape::fixed(&[of.axes("residual")?[0]]), "rows of residual")?;
        for name in ["left", "total"] {
            of.expect(name, &Shape::fixed(&[]), "one number")?;
        }
        Ok(results)
    }

    fn flops(&self, operands: &[&Shape], counts: super::Counts) -> u64 {
        (operands[3].elements(counts) + operands[2].columns()) as u64
    }
}

/// Checks the axes of the weight, of the number of units and of rows; returns the shapes of the results.
pub(super) fn check(of: &Shapes<'_>, rows: &str) -> Result<Vec<Shape>> {
    let &[_, columns] = &of.axes("weight")?[..] else { return Err(of.wrong("weight", "[capacity, columns]")) };
    let &[count, _] = &of.axes(rows)?[..] else { return Err(of.wrong(rows, "[rows, columns]")) };
    of.expect(rows, &Shape::fixed(&[count, columns]), "rows, columns of weight")?;
    let number = Shape::fixed(&[]);
    of.expect("units", &number, "one number")?;
    Ok(vec![of["weight"].clone(), number.clone(), number])
}
