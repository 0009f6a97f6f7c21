//! One step of Adam.

use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// One step of Adam, with weight decay that is decoupled or not (Kingma and Ba 2015; Loshchilov and Hutter 2019), elementwise:
///
/// `d = g + coupled parameter`, `m = beta1 m + (1 - beta1) d`, `v = beta2 v + (1 - beta2) d^2`,
/// `parameter = parameter - rate ((m / c1) / (sqrt(v / c2) + eps) + decay parameter)`
///
/// Operands: `parameter`, `m`, `v`, `g`, of equal shape, and `rates [3]`: `rate`, `c1 = 1 - beta1^t` and
/// `c2 = 1 - beta2^t` in step `t`, counted from 1; then, optional, `factor []`, by which `g` is multiplied: if it is NaN,
/// nothing changes. Results: `parameter`, `m` and `v`, updated in place.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Adam {
    /// Decay of the mean gradient.
    pub beta1: f32,
    /// Decay of the mean squared gradient.
    pub beta2: f32,
    /// Added to the divisor.
    pub eps: f32,
    /// Decoupled weight decay; 0 for none.
    pub decay: f32,
    /// Factor of the parameter that is added to its gradient; 0 for none.
    pub coupled: f32,
}

impl Default for Adam {
    fn default() -> Self {
        Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8, decay: 0.0, coupled: 0.0 }
    }
}

impl Operation for Adam {
    const NO_DERIVATIVE: Option<&'static str> = Some("it updates parameters");
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[
        STATES[0],
        STATES[1],
        STATES[2],
        Operand::rows("g").like("parameter"),
        Operand::scalar("rates"),
        Operand::scalar("factor").optional(),
    ])
    .gives(&STATES)
    .flops(15);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.expect("rates", &Shape::fixed(&[3]), "rate, 1 - beta1^t, 1 - beta2^t")?;
        of.expect("factor", &Shape::fixed(&[]), "one number")?;
        Ok(vec![of["parameter"].clone(); 3])
    }
}

const STATES: [Operand; 3] = [
    Operand::rows("parameter").stored(DType::F32),
    Operand::rows("m").stored(DType::F32).like("parameter"),
    Operand::rows("v").stored(DType::F32).like("parameter"),
];
