//! Cross entropy of logits and class indices.

use super::{Counts, Dim, Operand, Operation, Shape, Shapes, Signature, Vjp};
use crate::Result;

/// The target of rows that are left out; -1 as a signed integer.
pub const IGNORED: u32 = u32::MAX;

/// `w[t] (logsumexp(x) - x[t])` per row, 0 where the target `t` is [`IGNORED`]. With label smoothing `s`, that times
/// `1 - s`, plus `s / C` times the sum of `w[c] (logsumexp(x) - x[c])` over all classes, as in torch.
///
/// Operands: `logits [..., C]`, `targets [...]` (integers), then, if classes have weights, `weight [C]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrossEntropy {
    /// Share of the target that is spread evenly over all classes; default 0.
    pub label_smoothing: f32,
}

/// The gradient of [`CrossEntropy`] in its logits. Operands: `g [...]`, then those of [`CrossEntropy`].
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
pub struct CrossEntropyBackward(pub CrossEntropy);

/// The shape of the targets, after checking that logits, targets and weight fit together.
fn targets_of(of: &Shapes<'_>) -> Result<Shape> {
    let mut expected = of["logits"].clone();
    let Some(Dim::Fixed(_)) = expected.0.pop() else { return Err(of.wrong("logits", "[..., classes]")) };
    of.expect("targets", &expected, "that of logits without its last axis")?;
    Ok(expected)
}

impl Operation for CrossEntropy {
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[&[2, 3, 4], &[2, 3], &[4]], &[0])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("logits"),
        Operand::column_or_none("targets", "logits"),
        Operand::vector("weight").per_column("logits").optional(),
    ])
    .flops(5);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        Ok(vec![targets_of(of)?])
    }

    fn vjp(&self, operands: &[&Shape]) -> Option<Vjp> {
        Vjp::single(operands.len(), CrossEntropyBackward(self.clone()), 0..operands.len())
    }
}

impl Operation for CrossEntropyBackward {
    const NO_DERIVATIVE: Option<&'static str> = Some(super::vjp::SECOND);
    #[cfg(test)]
    const EXAMPLES: &'static [super::Example] = &[("{}", &[], &[])];
    const SIGNATURE: Signature = Signature::of(&[
        Operand::rows("g"),
        Operand::rows("logits"),
        Operand::column_or_none("targets", "logits"),
        Operand::vector("weight").per_column("logits").optional(),
    ]);

    fn infer(&self, of: &Shapes<'_>) -> Result<Vec<Shape>> {
        of.expect("g", &targets_of(of)?, "that of targets")?;
        Ok(vec![of["logits"].clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        7 * operands.get(1).map_or(0, |logits| logits.elements(counts)) as u64
    }
}
