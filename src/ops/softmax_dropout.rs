//! Softmax followed by dropout.

use super::definition::{self, Origin, Pattern, Sought, Step};
use super::signature::Role;
use super::{Dropout, Op, Operand, Operation, Shape, Signature, Softmax};
use crate::Result;

/// `y = dropout(softmax(x))`: the mask equals that of [`Dropout`] with the same seed and offset.
///
/// Operands as [`Softmax`]: `x [..., N]`, then optionally `keep`, which broadcasts to it. Result: `x`'s shape.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SoftmaxDropout {
    /// As [`Softmax::causal`].
    #[serde(default)]
    pub causal: bool,
    /// As [`Dropout::p`].
    pub p: f32,
    /// As [`Dropout::seed`].
    pub seed: u64,
    /// As [`Dropout::offset`].
    #[serde(default)]
    pub offset: u64,
}

impl SoftmaxDropout {
    /// The first step.
    pub fn softmax(&self) -> Softmax {
        Softmax { causal: self.causal, masked: false }
    }

    /// The second step.
    pub fn dropout(&self) -> Dropout {
        Dropout { p: self.p, seed: self.seed, offset: self.offset, stream: 0 }
    }
}

impl Operation for SoftmaxDropout {
    const RECURS: bool = false;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[
        (r#"{"causal": true, "p": 0.1, "seed": 1, "offset": 3}"#, &[&[40, 64]], &[0]),
        (r#"{"causal": true, "p": 0.1, "seed": 1, "offset": 3}"#, &[&[40, 64], &[40, 64]], &[0]),
    ];
    const SIGNATURE: Signature =
        Signature::of(&[Operand::rows("x").narrow(), Operand::new("keep", Role::Mask).optional()]);

    fn is_separable(&self, operands: &[&Shape]) -> bool {
        self.dropout().is_separable(operands)
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let softmax = Step::new(self.softmax(), &definition::given(0..operands.len()));
        Ok(vec![softmax, Step::new(self.dropout(), &[Origin::Step(0)])])
    }

    fn sought() -> Option<Sought> {
        const SOFTMAX: Pattern = Pattern::new("softmax", |op| matches!(op, Op::Softmax(softmax) if !softmax.masked));
        Some(Sought {
            pass: "softmax_dropout",
            priority: 20,
            tree: Pattern::new("dropout", |op| matches!(op, Op::Dropout(_))).of(&[SOFTMAX]),
            op: |ops| match ops {
                [Op::Softmax(softmax), Op::Dropout(dropout)] => {
                    let (p, seed, offset) = (dropout.p, dropout.seed, dropout.offset);
                    Some(SoftmaxDropout { causal: softmax.causal, p, seed, offset }.into())
                }
                _ => None,
            },
        })
    }
}
