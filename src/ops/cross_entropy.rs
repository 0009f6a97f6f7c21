//! Cross entropy of logits with class numbers.

use super::{Counts, Dim, Operand, Operation, Shape, expect};
use crate::{Error, Result};

/// The target that leaves a row out; as a signed number -1.
pub const IGNORED: u32 = u32::MAX;

/// `w[t] (logsumexp(x) - x[t])` a row, 0 where the target `t` is [`IGNORED`]. With label smoothing `s` that is taken
/// `1 - s` times, and `s / C` times the sum of `w[c] (logsumexp(x) - x[c])` over all classes added, as torch does.
///
/// Operands: `logits [..., C]`, `targets [...]` (integers), then, if classes have weights, `weight [C]`.
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrossEntropy {
    /// Part of the target that is spread over all classes; default 0.
    pub label_smoothing: f32,
}

/// The gradient of [`CrossEntropy`] in its logits. Operands: `g [...]`, then those of [`CrossEntropy`].
#[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrossEntropyBackward {
    /// As [`CrossEntropy::label_smoothing`].
    pub label_smoothing: f32,
}

/// The shape of the targets, once logits, targets and weight fit together.
fn targets_of(op: &str, operands: &[&Shape]) -> Result<Shape> {
    let [logits, targets, rest @ ..] = operands else {
        return Err(Error::InvalidArgument(format!("{op}: {} operands, expected logits and targets", operands.len())));
    };
    if rest.len() > 1 {
        return Err(Error::InvalidArgument(format!("{op}: too many operands, expected at most weight after targets")));
    }
    let mut expected = (*logits).clone();
    let Some(Dim::Fixed(classes)) = expected.0.pop() else {
        return Err(Error::InvalidArgument(format!("{op}: logits has shape {logits}, expected [..., classes]")));
    };
    expect(op, "targets", targets, &expected, "that of logits without its last axis")?;
    if let [weight] = rest {
        expect(op, "weight", weight, &Shape::fixed(&[classes]), "last axis of logits")?;
    }
    Ok(expected)
}

impl Operation for CrossEntropy {
    fn operands(&self) -> &'static [Operand] {
        const {
            &[
                Operand::rows("logits"),
                Operand::column_or_none("targets", "logits"),
                Operand::vector("weight").optional(),
            ]
        }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        Ok(vec![targets_of("cross_entropy", operands)?])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        5 * operands[0].elements(counts) as u64
    }
}

impl Operation for CrossEntropyBackward {
    fn operands(&self) -> &'static [Operand] {
        const {
            &[
                Operand::rows("g"),
                Operand::rows("logits"),
                Operand::column_or_none("targets", "logits"),
                Operand::vector("weight").optional(),
            ]
        }
    }

    fn infer(&self, operands: &[&Shape]) -> Result<Vec<Shape>> {
        let [g, rest @ ..] = operands else {
            return Err(Error::InvalidArgument("cross_entropy_backward: no operands, expected g and more".into()));
        };
        let expected = targets_of("cross_entropy_backward", rest)?;
        expect("cross_entropy_backward", "g", g, &expected, "that of targets")?;
        Ok(vec![rest[0].clone()])
    }

    fn flops(&self, operands: &[&Shape], counts: Counts) -> u64 {
        7 * operands.get(1).map_or(0, |logits| logits.elements(counts)) as u64
    }
}
