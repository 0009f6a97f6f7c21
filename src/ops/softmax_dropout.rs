//! Softmax with some of its results set to zero by chance.

use super::definition::{self, Origin, Step};
use super::{Counts, Dropout, Operand, Operation, Shape, Shapes, Softmax};
use crate::Result;

/// `y = dropout(softmax(x))`: the mask is that of [`Dropout`] at the same seed and offset.
///
/// Operands as [`Softmax`]: `x [..., N]`, and `keep`, which broadcasts to it, if there is one. Result: `x`'s shape.
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
    /// What comes first.
    pub fn softmax(&self) -> Softmax {
        Softmax { causal: self.causal }
    }

    /// What follows.
    pub fn dropout(&self) -> Dropout {
        Dropout { p: self.p, seed: self.seed, offset: self.offset }
    }
}

impl Operation for SoftmaxDropout {
    fn operands(&self) -> &'static [Operand] {
        const { &[Operand::rows("x").narrow(), Operand::mask("keep").optional()] }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        definition::infer(self, of)
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        definition::flops(self, operands, counts)
    }

    fn definition(&self, operands: &[&Shape]) -> Result<Vec<Step>> {
        let softmax = Step::new(self.softmax(), &definition::given(0..operands.len()));
        Ok(vec![softmax, Step::new(self.dropout(), &[Origin::Step(0)])])
    }
}
