//! What checkpoints add to an encoder for other tasks than embeddings, as data.

use super::parts::NormKind;
use crate::ops::{ActivationKind, PoolMode};

/// The tasks of checkpoints with a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Scores of a text or of a pair, `[B, labels]`: `...ForSequenceClassification` in transformers.
    Scores,
    /// Logits of every word at each token, `[T, words]`: `...ForMaskedLM`.
    Words,
}

/// A step of a head; its tensors have the step's name, then `.weight` and `.bias`.
#[derive(Debug, Clone, PartialEq)]
pub enum HeadStep {
    /// One vector per text from those of its tokens.
    Pool(PoolMode),
    /// `x W^T + b`.
    Linear {
        /// Start of the tensors' names.
        name: String,
        /// Whether there is a bias.
        bias: bool,
        /// Columns of the result.
        columns: usize,
    },
    /// A nonlinearity.
    Activation(ActivationKind),
    /// A norm.
    Norm {
        /// Start of the tensors' names.
        name: String,
        /// Its kind.
        kind: NormKind,
        /// Added to the variance.
        eps: f32,
    },
}

impl HeadStep {
    /// A product with a bias.
    pub fn linear(name: &str, columns: usize) -> Self {
        HeadStep::Linear { name: name.into(), bias: true, columns }
    }

    /// A layer norm with a bias.
    pub fn norm(name: &str, eps: f32) -> Self {
        HeadStep::Norm { name: name.into(), kind: NormKind::Layer { bias: true }, eps }
    }
}

/// A head: steps after the encoder's last hidden state.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskHead {
    /// Its task; the last step of one for words is a product.
    pub task: Task,
    /// The steps, in order.
    pub steps: Vec<HeadStep>,
    /// Tensors that stand in for others which a checkpoint may lack: the missing one's name, then the other's.
    pub tied: Vec<[String; 2]>,
}

impl TaskHead {
    /// A head for scores.
    pub fn scores(steps: Vec<HeadStep>) -> Self {
        TaskHead { task: Task::Scores, steps, tied: Vec::new() }
    }

    /// Names of the tensors that the steps read.
    pub fn tensors(&self) -> Vec<String> {
        let of = |step: &HeadStep| -> Vec<String> {
            let (name, bias) = match step {
                HeadStep::Pool(_) | HeadStep::Activation(_) => return Vec::new(),
                HeadStep::Linear { name, bias, .. } => (name, *bias),
                HeadStep::Norm { name, kind, .. } => (name, *kind == NormKind::Layer { bias: true }),
            };
            let ends = ["weight"].into_iter().chain(bias.then_some("bias"));
            ends.map(|end| format!("{name}.{end}")).collect()
        };
        self.steps.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tensors_of_a_head() {
        let steps = vec![
            HeadStep::Pool(PoolMode::Cls),
            HeadStep::Linear { name: "a".into(), bias: false, columns: 3 },
            HeadStep::Activation(ActivationKind::Tanh),
            HeadStep::Norm { name: "b".into(), kind: NormKind::Layer { bias: false }, eps: 0.1 },
            HeadStep::norm("c", 0.1),
            HeadStep::linear("d", 2),
        ];
        let head = TaskHead::scores(steps);
        assert_eq!(head.tensors(), ["a.weight", "b.weight", "c.weight", "c.bias", "d.weight", "d.bias"]);
    }
}
