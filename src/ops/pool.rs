//! One vector per text, pooled from the vectors of its tokens.

use super::{Counts, Dim, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;
use crate::dtype::DType;

/// How the token vectors of a text become one; `n` is the number of pooled tokens.
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
    /// `sum`
    Sum = 6,
}

impl PoolMode {
    /// The value of sentence-transformers' `pooling_mode` for this mode, or, of a sum, of its `pooling_strategy`.
    pub fn name(self) -> &'static str {
        match self {
            PoolMode::Cls => "cls",
            PoolMode::Max => "max",
            PoolMode::Mean => "mean",
            PoolMode::MeanSqrtLength => "mean_sqrt_len_tokens",
            PoolMode::WeightedMean => "weightedmean",
            PoolMode::LastToken => "lasttoken",
            PoolMode::Sum => "sum",
        }
    }

    /// The mode with a value of `pooling_mode`.
    pub fn named(name: &str) -> Option<PoolMode> {
        use PoolMode::{Cls, LastToken, Max, Mean, MeanSqrtLength, WeightedMean};
        [Cls, Max, Mean, MeanSqrtLength, WeightedMean, LastToken].into_iter().find(|mode| mode.name() == name)
    }
}

/// Pooling with one or more modes, concatenated in the given order.
///
/// Operands: `x [T, H]`, or other rows that a batch counts, `offsets [B + 1]` (u32), `first [B]` (u32): tokens of text
/// `i` before `offsets[i] + first[i]` are left out (a prompt that is not to be pooled). Result: `[B, modes * H]`,
/// float32. A text with no pooled token yields zeros, and negative infinity for `Max`, as in sentence-transformers 6.2.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The modes, in the order of concatenation.
    pub modes: Vec<PoolMode>,
}

/// The shape of the result.
///
/// # Errors
/// `InvalidArgument` for operands that do not fit.
fn pooled(of: &Shapes<'_>, op: &Pool) -> Result<Shape> {
    let x = &of["x"];
    if !matches!(x.rows(), Dim::Tokens | Dim::Counted(_)) || x.0.len() != 2 {
        return Err(of.wrong("x", "[T, columns]"));
    }
    of.expect("offsets", &Shape::vector(Dim::Boundaries), "one more than there are texts")?;
    of.expect("first", &Shape::vector(Dim::Texts), "one a text")?;
    Ok(Shape::matrix(Dim::Texts, op.modes.len() * x.columns()))
}

impl Operation for Pool {
    const EVERYWHERE: super::Coverage = super::Coverage::Promised;
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"modes": ["mean", "max"]}"#, &[&[7, 4], &[3], &[2]], &[0])];
    fn signature(&self) -> Signature {
        const OF: Signature = Signature::of(&[
            Operand::rows("x").counted(Dim::Tokens),
            Operand::offsets("offsets", "x").counted(Dim::Boundaries),
            Operand::count("first", "x").counted(Dim::Texts),
        ]);
        OF.flops(self.modes.len() as u64)
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        Ok(vec![pooled(of, self)?])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        Vjp::single(operands.len(), PoolBackward(self.clone()), 0..operands.len())
    }

    /// Results are small and final, so they are float32 whatever the type of the tokens.
    fn result_type(&self, _operands: &[DType]) -> DType {
        DType::F32
    }
}

/// The gradient of [`Pool`] in `x`: of each mode, the gradient of its columns times the token's weight in it; of the
/// largest value, to the first token that has it.
///
/// Operands: `g [B, modes * H]`, then those of [`Pool`]. Result: `x`'s shape; rows that are not pooled have zeros.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
pub struct PoolBackward(pub Pool);

impl Operation for PoolBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[(r#"{"modes": ["mean"]}"#, &[], &[])];
    fn signature(&self) -> Signature {
        const OF: Signature = Signature::of(&[
            Operand::rows("g").counted(Dim::Texts),
            Operand::rows("x").counted(Dim::Tokens),
            Operand::offsets("offsets", "x").counted(Dim::Boundaries),
            Operand::count("first", "x").counted(Dim::Texts),
        ]);
        OF.flops(self.0.modes.len() as u64)
    }

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        let expected = pooled(of, &self.0)?;
        of.expect("g", &expected, "that of the result")?;
        Ok(vec![of["x"].clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        (self.0.modes.len() * operands[1].elements(counts)) as u64
    }
}
