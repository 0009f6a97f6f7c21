//! One step of gradient descent with momentum.

use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;
use crate::dtype::DType;

/// One step of gradient descent with momentum (Sutskever et al. 2013, as `torch.optim.SGD`), elementwise:
///
/// `d = g + decay parameter`, `m = momentum m + d`, `parameter = parameter - rate m`
///
/// Operands: `parameter`, `m`, at first zeros, `g`, of equal shape, and `rate []`; then, optional, `factor []`, by which `g` is
/// multiplied: if it is NaN, nothing changes. Results: `parameter` and `m`, updated in place.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sgd {
    /// Decay of the sum of the gradients; 0 for plain gradient descent.
    pub momentum: f32,
    /// Factor of the parameter that is added to its gradient; 0 for none.
    pub decay: f32,
}

impl Default for Sgd {
    fn default() -> Self {
        Sgd { momentum: 0.9, decay: 0.0 }
    }
}

impl Operation for Sgd {
    const NO_DERIVATIVE: Option<&'static str> = Some("it updates parameters");
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[
        STATES[0],
        STATES[1],
        Operand::rows("g").like("parameter"),
        Operand::scalar("rate"),
        Operand::scalar("factor").optional(),
    ])
    .gives(&STATES)
    .flops(7);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        for name in ["rate", "factor"] {
            of.expect(name, &Shape::fixed(&[]), "one number")?;
        }
        Ok(vec![of["parameter"].clone(); 2])
    }
}

const STATES: [Operand; 2] =
    [Operand::rows("parameter").stored(DType::F32), Operand::rows("m").stored(DType::F32).like("parameter")];
