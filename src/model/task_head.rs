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
pub enum Step {
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

impl Step {
    /// A product with a bias.
    pub fn linear(name: &str, columns: usize) -> Self {
        Step::Linear { name: name.into(), bias: true, columns }
    }

    /// A layer norm with a bias.
    pub fn norm(name: &str, eps: f32) -> Self {
        Step::Norm { name: name.into(), kind: NormKind::Layer { bias: true }, eps }
    }
}

/// A head: steps after the encoder's last hidden state.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskHead {
    /// Its task; the last step of one for words is a product.
    pub task: Task,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// Tensors that stand in for others which a checkpoint may lack: the missing one's name, then the other's.
    pub tied: Vec<[String; 2]>,
}

impl TaskHead {
    /// A head for scores.
    pub fn scores(steps: Vec<Step>) -> Self {
        TaskHead { task: Task::Scores, steps, tied: Vec::new() }
    }

    /// Names of the tensors that the steps read.
    pub fn tensors(&self) -> Vec<String> {
        let of = |step: &Step| -> Vec<String> {
            let (name, bias) = match step {
                Step::Pool(_) | Step::Activation(_) => return Vec::new(),
                Step::Linear { name, bias, .. } => (name, *bias),
                Step::Norm { name, kind, .. } => (name, *kind == NormKind::Layer { bias: true }),
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
            Step::Pool(PoolMode::Cls),
            Step::Linear { name: "a".into(), bias: false, columns: 3 },
            Step::Activation(ActivationKind::Tanh),
            Step::Norm { name: "b".into(), kind: NormKind::Layer { bias: false }, eps: 0.1 },
            Step::norm("c", 0.1),
            Step::linear("d", 2),
        ];
        let head = TaskHead::scores(steps);
        assert_eq!(head.tensors(), ["a.weight", "b.weight", "c.weight", "c.bias", "d.weight", "d.bias"]);
    }
}
