//! GELU of rows plus a bias.

use super::definition::{self, Origin, Pattern, SUM, Sought, Step};
use super::{Activation, ActivationKind, Binary, BinaryKind, Op, Operand, Operation, Shape, Signature};
use crate::Result;

/// The variant of GELU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approximate {
    /// Exact, with erf.
    None,
    /// The tanh approximation.
    #[default]
    Tanh,
}

impl Approximate {
    /// The nonlinearity.
    pub fn kind(self) -> ActivationKind {
        match self {
            Approximate::None => ActivationKind::GeluErf,
            Approximate::Tanh => ActivationKind::GeluTanh,
        }
    }
}

/// `y = gelu(x + bias)`. Operands: `x [..., N]`, `bias [N]`. Result: `x`'s shape.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BiasGelu {
    /// The variant; default tanh.
    pub approximate: Approximate,
}

impl Operation for BiasGelu {
    const EVERYWHERE: super::Coverage = super::Coverage::Steps;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] =
        &[("{}", &[&[40, 64], &[64]], &[0, 1]), (r#"{"approximate": "none"}"#, &[&[40, 64], &[64]], &[0, 1])];
    const SIGNATURE: Signature = Signature::of(&[Operand::rows("x").narrow(), Operand::vector("bias").per_column("x")]);

    fn definition(&self, _operands: &[&Shape]) -> Result<Vec<Step>> {
        let sum = Step::new(Binary::from(BinaryKind::Add), &definition::given(0..2));
        Ok(vec![sum, Step::new(Activation::from(self.approximate.kind()), &[Origin::Step(0)])])
    }

    fn sought() -> Option<Sought> {
        Some(Sought {
            pass: "bias_gelu",
            priority: 20,
            tree: Pattern::new("gelu", |op| approximate(op).is_some()).of(&[SUM]),
            op: |ops| approximate(ops[1]).map(|approximate| BiasGelu { approximate }.into()),
        })
    }
}

fn approximate(op: &Op) -> Option<Approximate> {
    let Op::Activation(activation) = op else { return None };
    match activation.kind {
        ActivationKind::GeluErf => Some(Approximate::None),
        ActivationKind::GeluTanh => Some(Approximate::Tanh),
        _ => None,
    }
}
