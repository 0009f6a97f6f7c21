//! The modules of `modules.json` after the encoder, read into data and added to the graph.

mod known;
mod logit_score;
mod mask;
mod read;
mod settings;
#[cfg(test)]
pub(super) mod tests;
mod token_pooling;

use super::task_head::Task;
use crate::ops::{ActivationKind, PoolMode};
pub(super) use known::left_out;
pub use known::{known_modules, unknown_module};
pub use logit_score::{KEYS as SCORED_TOKENS, LogitScore, Word};
pub use mask::MultiVectorMask;
pub(super) use mask::punctuation;
pub(super) use read::{DENSE_OF_PYLATE, read_head};
pub use settings::Columns;
pub use token_pooling::TokenPooling;

/// A value that one module gives and others read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// One vector per token.
    Tokens,
    /// One vector per text.
    Sentence,
    /// Scores of each text or pair.
    Scores,
}

impl Feature {
    /// All of them.
    const ALL: [Feature; 3] = [Feature::Tokens, Feature::Sentence, Feature::Scores];

    /// Its name in the modules' configurations.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Tokens => "token_embeddings",
            Feature::Sentence => "sentence_embedding",
            Feature::Scores => "scores",
        }
    }
}

/// The sum over a text's tokens, or the largest, of `log(1 + max(x, 0))` of the logits of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpladePooling {
    /// `Max` or `Sum`.
    pub mode: PoolMode,
    /// Whether `log(1 + x)` is taken twice.
    pub twice: bool,
}

/// One module after the Transformer.
#[derive(Debug, Clone, PartialEq)]
pub enum Head {
    /// Replaces the token vectors by a weighted mean of hidden states: the embeddings, which are state 0, and the
    /// results of the layers. Tensor `PATH/layer_weights`, one number for each state from `first` on.
    WeightedLayerPooling {
        /// Folder of the module, relative to the model: prefix of the tensors' names.
        path: String,
        /// The encoder's layers, as the module's configuration states them.
        layers: usize,
        /// The first state that counts.
        first: usize,
    },
    /// Pools token vectors into one vector per text.
    Pooling {
        /// Concatenated in this order.
        modes: Vec<PoolMode>,
        /// Whether a prompt's tokens are pooled too.
        include_prompt: bool,
    },
    /// Pools logits of words into one vector per text.
    SpladePooling(SpladePooling),
    /// Scores of texts from logits of words.
    LogitScore(LogitScore),
    /// `act(W x + b)`; tensors `PATH/linear.weight` and `PATH/linear.bias`.
    Dense {
        /// Folder of the module, relative to the model.
        path: String,
        /// What it reads.
        of: Feature,
        /// What the result is, or replaces.
        gives: Feature,
        /// Input columns.
        input: usize,
        /// Output columns.
        output: usize,
        /// Whether there is a bias.
        bias: bool,
        /// Nonlinearity.
        activation: ActivationKind,
        /// Whether `x` is added to the result, multiplied by `PATH/residual.weight` where the columns differ.
        residual: bool,
    },
    /// Layer normalisation, eps 1e-5; tensors `PATH/norm.weight` and `PATH/norm.bias`.
    LayerNorm {
        /// Folder of the module, relative to the model.
        path: String,
        /// Columns.
        dimension: usize,
    },
    /// Replaces the tokens' vectors by products side by side, `x W^T + b` of each file with its columns; tensors
    /// `FILE/weight` and `FILE/bias`. The last is repeated to an even number of columns.
    Products(Vec<(String, usize)>),
    /// Chooses among the tokens' vectors, after the graph.
    MultiVectorMask(MultiVectorMask),
    /// Pools the tokens' vectors, after the graph.
    TokenPooling(TokenPooling),
    /// A module that computes nothing in the graph: its name.
    Idle(&'static str),
    /// `x / max(||x||, 1e-12)`.
    Normalize {
        /// What it replaces by the result.
        of: Feature,
    },
}

/// The kind of the first module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// An encoder, as config.json describes it.
    Transformer,
    /// A table of token vectors, of which a text's are averaged.
    StaticEmbedding,
}

/// The modules of a model's folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Modules {
    /// The kind of the first module.
    pub first: First,
    /// Folder of the first module, relative to the model (often empty).
    pub transformer: String,
    /// Whether the settings beside `modules.json` apply.
    pub listed: bool,
    /// The class of the first module, if it is of the model's own code.
    pub own_class: Option<&'static str>,
    /// Whether the first module takes the task that a call names.
    pub takes_task: bool,
    /// What the first module's checkpoint has a head for; `None` for the hidden states alone.
    pub task: Option<Task>,
    /// The modules after it.
    pub heads: Vec<Head>,
}

impl Head {
    /// The mean of all tokens.
    pub(super) fn mean() -> Self {
        Head::Pooling { modes: vec![PoolMode::Mean], include_prompt: true }
    }

    /// Whether it replaces the tokens' vectors.
    pub fn replaces_tokens(&self) -> bool {
        matches!(
            self,
            Head::WeightedLayerPooling { .. }
                | Head::Dense { gives: Feature::Tokens, .. }
                | Head::Normalize { of: Feature::Tokens }
                | Head::Products(_)
        )
    }

    /// The module's name, and one line of its settings.
    pub fn shown(&self) -> (&'static str, String) {
        match self {
            Head::WeightedLayerPooling { layers, first, .. } => {
                ("WeightedLayerPooling", format!("states {first} to {layers}"))
            }
            Head::Pooling { modes, .. } => {
                let modes: Vec<&str> = modes.iter().map(|mode| mode.name()).collect();
                ("Pooling", modes.join("+"))
            }
            Head::SpladePooling(SpladePooling { mode, twice }) => {
                ("SpladePooling", format!("{}{}", mode.name(), if *twice { ", log1p_relu" } else { "" }))
            }
            Head::LogitScore(score) => ("LogitScore", score.shown()),
            Head::Dense { input, output, activation, .. } => ("Dense", format!("{input} to {output}, {activation:?}")),
            Head::LayerNorm { dimension, .. } => ("LayerNorm", format!("{dimension}")),
            Head::Normalize { .. } => ("Normalize", String::new()),
            Head::Products(products) => {
                let shown = products.iter().map(|(file, columns)| format!("{file} {columns}"));
                ("Products", shown.collect::<Vec<_>>().join(", "))
            }
            Head::MultiVectorMask(mask) => {
                ("MultiVectorMask", format!("without {} tokens in {}", mask.skipped.len(), mask.tasks.join(", ")))
            }
            Head::TokenPooling(pooling) => ("HierarchicalTokenPooling", format!("factor {}", pooling.factor)),
            Head::Idle(name) => (name, String::new()),
        }
    }
}

impl Modules {
    /// Replaces the modes of pooling.
    pub fn pool(&mut self, chosen: &[PoolMode]) {
        for head in &mut self.heads {
            if let Head::Pooling { modes, .. } = head {
                *modes = chosen.to_vec();
            }
        }
    }

    /// Whether the task reaches the tokenizer, which may have a limit of its own for it.
    pub fn gives_task_to_tokenizer(&self) -> bool {
        self.first == First::Transformer && self.own_class.is_none()
    }

    /// Folders, or files, of the modules that have tensors of their own, for [`super::weights::Weights::open`]. Those that
    /// modules.json does not list have none.
    pub fn tensor_folders(&self) -> Vec<String> {
        let mut folders: Vec<String> = Vec::new();
        for head in &self.heads {
            if let Head::Products(products) = head {
                folders.extend(products.iter().map(|(file, _)| file.clone()));
            }
            if !self.listed {
                continue;
            }
            if let Head::WeightedLayerPooling { path, .. } | Head::Dense { path, .. } | Head::LayerNorm { path, .. } =
                head
                && !folders.contains(path)
            {
                folders.push(path.clone());
            }
        }
        folders
    }
}
