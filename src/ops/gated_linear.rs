//! Two products of which one gates the other.

use super::definition::{LINEAR, Origin, Pattern, Sought, Step};
use super::{ActivationKind, Binary, BinaryKind, Linear, Op, Operand, Operation, Shape, Signature};
use crate::Result;

/// `y = act(x gate^T) (x up^T)` (Shazeer 2020: SwiGLU with SiLU, GeGLU with GELU).
///
/// Operands: `x [..., K]`, `gate [N, K]`, `up [N, K]`. Result: `[..., N]`. Sums run as in [`Linear`].
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatedLinear {
    /// Activation of the gates; must be a kind that can end [`Linear`].
    pub kind: ActivationKind,
}

impl Operation for GatedLinear {
    const EVERYWHERE: super::Coverage = super::Coverage::Steps;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] =
        &[(r#"{"kind": "silu"}"#, &[&[40, 64], &[96, 64], &[96, 64]], &[0, 1, 2])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("x").narrow(),
        Operand::matrix("gate").narrow(),
        Operand::matrix("up").narrow().like("gate"),
    ]);

    fn definition(&self, _operands: &[&Shape]) -> Result<Vec<Step>> {
        let gate = Linear { activation: Some(self.kind), ..Linear::default() };
        Ok(vec![
            Step::new(gate, &[Origin::Operand(0), Origin::Operand(1)]),
            Step::new(Linear::default(), &[Origin::Operand(0), Origin::Operand(2)]),
            Step::new(Binary::from(BinaryKind::Multiply), &[Origin::Step(0), Origin::Step(1)]),
        ])
    }

    fn sought() -> Option<Sought> {
        Some(Sought {
            pass: "gated_linear",
            priority: 20,
            tree: Pattern::new("a product", |op| matches!(op, Op::Binary(Binary { kind: BinaryKind::Multiply })))
                .of(&[LINEAR, LINEAR]),
            op: |ops| Linear::of(ops[0])?.activation.map(|kind| GatedLinear { kind }.into()),
        })
    }
}
