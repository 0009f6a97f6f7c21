//! One vector a text from its tokens' vectors.

use super::{Counts, Dim, Operand, Operation, Shape, Shapes};
use crate::Result;
use crate::dtype::DType;

/// How a text's token vectors become one; `n` is the number of pooled tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub enum PoolMode {
    /// The first pooled token.
    Cls = 0,
    /// The largest value of each column.
    Max = 1,
    /// `sum / max(n, 1e-9)`
    Mean = 2,
    /// `sum / sqrt(max(n, 1e-9))`
    MeanSqrtLength = 3,
    /// `sum_i i x_i / max(sum_i i, 1e-9)`; `i` counts from 1 at the text's first token, prompt included.
    WeightedMean = 4,
    /// The last token.
    LastToken = 5,
}

impl PoolMode {
    /// The mode as sentence-transformers' `pooling_mode` names it.
    pub fn name(self) -> &'static str {
        match self {
            PoolMode::Cls => "cls",
            PoolMode::Max => "max",
            PoolMode::Mean => "mean",
            PoolMode::MeanSqrtLength => "mean_sqrt_len_tokens",
            PoolMode::WeightedMean => "weightedmean",
            PoolMode::LastToken => "lasttoken",
        }
    }
}

/// Pooling, several modes side by side in the order given.
///
/// Operands: `x [T, H]`, `offsets [B + 1]` (u32), `first [B]` (u32): tokens of text `i` before
/// `offsets[i] + first[i]` are left out (a prompt that is not to be pooled). Result: `[B, modes * H]`, float32.
/// A text with no pooled token gives zeros, and for `Max` negative infinity, as sentence-transformers 6.2 does.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The modes, concatenated.
    pub modes: Vec<PoolMode>,
}

impl Operation for Pool {
    fn operands(&self) -> &'static [Operand] {
        const {
            &[
                Operand::rows("x").counted(Dim::Tokens),
                Operand::offsets("offsets", "x").counted(Dim::Boundaries),
                Operand::count("first", "x").counted(Dim::Texts),
            ]
        }
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let x = &of["x"];
        if x.rows() != Dim::Tokens || x.0.len() != 2 {
            return Err(of.wrong("x", "[T, columns]"));
        }
        of.expect("offsets", &Shape::vector(Dim::Boundaries), "one more than there are texts")?;
        of.expect("first", &Shape::vector(Dim::Texts), "one a text")?;
        Ok(vec![Shape::matrix(Dim::Texts, self.modes.len() * x.columns())])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        (self.modes.len() * operands[0].elements(counts)) as u64
    }

    /// Few and final: float32, whatever the tokens are.
    fn result_type(&self, _operands: &[DType]) -> DType {
        DType::F32
    }
}
