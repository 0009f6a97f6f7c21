//! The norm of gradients, and the factor that limits it.

use super::{Operand, Operation, Shape, Shapes, Signature};
use crate::Result;

/// Added to a norm before it is divided by the largest, as torch's `clip_grad_norm_` does.
pub const EPS: f32 = 1e-6;

/// The norm of gradients whose squares have the sum `squares`, and the factor by which they have a norm of at most `max_norm`
/// (Pascanu et al. 2013), elementwise:
///
/// `norm = unscale sqrt(squares)`, `factor = unscale / max(1, (norm + 1e-6) / max_norm)`; NaN for a norm that is not finite
///
/// Operands: `squares`, `max_norm []`, infinite for no limit, then, optional, `unscale []`, by which the gradients are multiplied
/// first; default 1. Results: `norm` and `factor`, of the shape of `squares`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClipNorm {}

impl Operation for ClipNorm {
    const NO_DERIVATIVE: Option<&'static str> = Some("it limits gradients");
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("squares"), Operand::scalar("max_norm"), Operand::scalar("unscale").optional()])
            .gives(&[Operand::rows("norm"), Operand::rows("factor")])
            .flops(7);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        for name in ["max_norm", "unscale"] {
            of.expect(name, &Shape::fixed(&[]), "one number")?;
        }
        Ok(vec![of["squares"].clone(); 2])
    }
}
