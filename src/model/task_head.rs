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
    /// Logits of every word after a text, `[B, words]`: `...ForCausalLM`.
    NextWord,
}

/// What becomes of padding tokens that a text itself ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Padding {
    /// They are tokens like others.
    #[default]
    Kept,
    /// Those of this id are left out: no token before them sees them.
    Cut(u32),
    /// The configuration states no padding token, so that the reference scores texts one by one.
    Unstated,
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
    /// `c tanh(x / c)`.
    SoftCap(f32),
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
    /// Its task; the last product of one for words gives their logits.
    pub task: Task,
    /// The steps, in order.
    pub steps: Vec<HeadStep>,
    /// Tensors that stand in for others which a checkpoint may lack: the missing one's name, then the other's.
    pub tied: Vec<[String; 2]>,
    /// What becomes of padding tokens at the end of a text.
    pub padding: Padding,
}

impl TaskHead {
    /// A head whose tensors have no other names, for texts as they are.
    pub fn of(task: Task, steps: Vec<HeadStep>) -> Self {
        TaskHead { task, steps, tied: Vec::new(), padding: Padding::Kept }
    }

    /// Names of the tensors that the steps read.
    pub fn tensors(&self) -> Vec<String> {
        let of = |step: &HeadStep| -> Vec<String> {
            let (name, bias) = match step {
                HeadStep::Pool(_) | HeadStep::Activation(_) | HeadStep::SoftCap(_) => return Vec::new(),
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
        let head = TaskHead::of(Task::Scores, steps);
        assert_eq!(head.tensors(), ["a.weight", "b.weight", "c.weight", "c.bias", "d.weight", "d.bias"]);
    }
}
