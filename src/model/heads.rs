//! The modules of `modules.json` after the encoder, read into data and added to the graph.

mod class;
mod read;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde_json::Value;

use super::config::read_json;
use super::fields::{shown, unsupported};
use super::registry;
use super::routes::{Listing, Row};
use super::task_head::Task;
use crate::ops::{ActivationKind, PoolMode};
use crate::{Error, Result};
pub use class::Class;
use class::{read_task, saved_class};
use read::{ACTIVATIONS, MODES, read_head};

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
    /// A module, by name, that does nothing when encoding.
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
    fn mean() -> Self {
        Head::Pooling { modes: vec![PoolMode::Mean], include_prompt: true }
    }

    /// Whether it replaces the tokens' vectors.
    pub fn replaces_tokens(&self) -> bool {
        matches!(
            self,
            Head::WeightedLayerPooling { .. }
                | Head::Dense { gives: Feature::Tokens, .. }
                | Head::Normalize { of: Feature::Tokens }
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
            Head::Dense { input, output, activation, .. } => ("Dense", format!("{input} to {output}, {activation:?}")),
            Head::LayerNorm { dimension, .. } => ("LayerNorm", format!("{dimension}")),
            Head::Normalize { .. } => ("Normalize", String::new()),
            Head::Idle(name) => (name, String::new()),
        }
    }
}

impl Modules {
    /// Whether the task reaches the tokenizer, which may have a limit of its own for it.
    pub fn gives_task_to_tokenizer(&self) -> bool {
        self.first == First::Transformer && self.own_class.is_none()
    }

    /// Folders of the modules that have tensors of their own, for [`super::weights::Weights::open`].
    pub fn tensor_folders(&self) -> Vec<String> {
        let mut folders: Vec<String> = Vec::new();
        for head in &self.heads {
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

/// The modules of texts without a task, of all those that `modules.json` lists; those that the class adds to a bare
/// transformer if there is no such file.
///
/// # Errors
/// As [`read_listing`], [`Listing::choose`] and [`read_listed`].
pub fn read_modules(folder: &Path, class: Class) -> Result<Modules> {
    match read_listing(folder, class)? {
        Some(listing) => read_listed(folder, class, &listing.choose(None)?),
        None => read_bare(folder, class),
    }
}

/// `modules.json` of a model of a class; `None` for a folder that is read as a bare transformer.
///
/// # Errors
/// As [`Listing::read`]; `Unsupported` for a model of another class.
pub fn read_listing(folder: &Path, class: Class) -> Result<Option<Listing>> {
    if !folder.join("modules.json").exists() {
        return Ok(None);
    }
    let saved = saved_class(folder)?;
    match saved == class.name() {
        true => Listing::read(folder),
        // The reference, too, reads a checkpoint of another class as a bare one with a head.
        false if class == Class::CrossEncoder => Ok(None),
        false => Err(class.other(folder, &saved)),
    }
}

/// The modules that a class adds to a folder without `modules.json`.
///
/// # Errors
/// `ModelFormat` if it is no folder; `Unsupported` for a checkpoint without what the class needs.
pub fn read_bare(folder: &Path, class: Class) -> Result<Modules> {
    if !folder.is_dir() {
        return Err(Error::format(folder, "not a folder"));
    }
    let (task, heads) = match class {
        Class::SentenceTransformer => {
            (None, vec![Head::Pooling { modes: vec![usual_pooling(folder)], include_prompt: true }])
        }
        Class::CrossEncoder => {
            let path = folder.join("config.json");
            let classes = read_json(&path).unwrap_or_default().get("architectures").cloned().unwrap_or_default();
            if classes.get(0).and_then(Value::as_str).is_some_and(|class| class.ends_with("ForCausalLM")) {
                return Err(unsupported(&path, format_args!("architectures {}", shown(&classes)), WORDS_AS_SCORES));
            }
            (Some(Task::Scores), Vec::new())
        }
    };
    let (first, transformer) = (First::Transformer, String::new());
    Ok(Modules { first, transformer, listed: false, own_class: None, takes_task: false, task, heads })
}

/// Reads the configuration of each module of a list, which is not empty.
///
/// # Errors
/// `ModelFormat` for unreadable or invalid files; `Unsupported` for an unknown module or activation.
pub fn read_listed(folder: &Path, class: Class, rows: &[Row]) -> Result<Modules> {
    let path = folder.join("modules.json");
    let Some((row, rest)) = rows.split_first() else {
        return Err(Error::format(&path, "lists no modules"));
    };
    let transformer = folder.join(&row.path);
    // Which architecture it belongs to is known when config.json is read.
    let own_class = registry::own_module(&row.kind);
    let (first, task, mut heads) = match (row.kind.as_str(), class) {
        ("Transformer", _) => (First::Transformer, read_task(&transformer, class, None)?, Vec::new()),
        _ if own_class.is_some() => (First::Transformer, read_task(&transformer, class, None)?, Vec::new()),
        ("StaticEmbedding", Class::SentenceTransformer) => (First::StaticEmbedding, None, vec![Head::mean()]),
        (other, _) if left_out(other).is_some() => return Err(unknown_module(&path, other)),
        (other, _) => {
            let what = format!("the first module is {other}");
            return Err(unsupported(&path, what, "only a Transformer or a StaticEmbedding is known there"));
        }
    };
    for row in rest {
        heads.push(read_head(folder, &transformer, row)?);
    }
    let gives = |feature: Feature, head: &Head| match head {
        Head::Pooling { .. } => feature == Feature::Sentence,
        Head::Dense { gives, .. } => feature == *gives,
        _ => false,
    };
    match class.result() {
        Feature::Scores if task == Some(Task::Scores) => {}
        result if heads.iter().any(|head| gives(result, head)) => {}
        Feature::Scores => return Err(unsupported(&path, "no module gives scores", "a pair needs them")),
        _ => return Err(unsupported(&path, "no Pooling module", "a text needs one vector")),
    }
    let (transformer, takes_task) = (row.path.clone(), row.takes_task);
    Ok(Modules { first, transformer, listed: true, own_class, takes_task, task, heads })
}

/// Pooling of a bare transformer: of the last token after a causal language model, otherwise the mean. Loading reports
/// the faults of config.json.
fn usual_pooling(folder: &Path) -> PoolMode {
    let config = read_json(&folder.join("config.json")).unwrap_or_default();
    let class = config.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
    match config.get("is_causal") != Some(&Value::Bool(false))
        && class.is_some_and(|class| class.ends_with("ForCausalLM"))
    {
        true => PoolMode::LastToken,
        false => PoolMode::Mean,
    }
}

/// The modules of sentence-transformers that are read, each with its modes or activations.
pub fn known_modules() -> [(&'static str, Vec<&'static str>); 9] {
    let activations = ACTIVATIONS.iter().map(|(name, _)| *name).collect();
    [
        ("Transformer", vec![]),
        ("StaticEmbedding", vec![]),
        ("WeightedLayerPooling", vec![]),
        ("Pooling", MODES.iter().map(|(name, ..)| *name).collect()),
        ("Dense", activations),
        ("LayerNorm", vec![]),
        ("Normalize", vec![]),
        ("Dropout", vec![]),
        ("Router", vec![]),
    ]
}

/// Modules of sentence-transformers that are not read, and what to do in their place.
const LEFT_OUT: [(&str, &str); 7] = [
    ("BoW", COUNTS),
    ("CLIPModel", "only text is read; encode images and CLIP's texts with sentence-transformers"),
    ("CNN", WORDS),
    ("LSTM", WORDS),
    ("LogitScore", WORDS_AS_SCORES),
    ("WordEmbeddings", WORDS),
    ("WordWeights", WORDS),
];
const COUNTS: &str = "counts of words are made by scikit-learn's CountVectorizer or TfidfVectorizer";
const WORDS: &str = "models over tables of words are encoded with sentence-transformers; a table of tokens is a \
                     StaticEmbedding, as StaticEmbedding.from_distillation of sentence-transformers makes it";
/// Of a decoder's logits of words.
pub(super) const WORDS_AS_SCORES: &str = "scores from a decoder's logits of words are made by sentence-transformers; a \
                                          checkpoint with a head of its own (...ForSequenceClassification) is read";

/// What to do in place of a module that sentence-transformers has and that is not read.
fn left_out(kind: &str) -> Option<&'static str> {
    LEFT_OUT.iter().find(|(name, _)| *name == kind).map(|(_, remedy)| *remedy)
}

/// The error for a module that is not read.
pub fn unknown_module(path: &Path, kind: &str) -> Error {
    let known = || format!("known are {} of sentence_transformers", known_modules().map(|(name, _)| name).join(", "));
    unsupported(path, format!("module {kind}"), left_out(kind).map_or_else(known, str::to_owned))
}
