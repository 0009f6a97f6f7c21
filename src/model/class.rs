//! The classes of sentence-transformers, one file each: what the folders of a class hold and what it computes. Readers, the graph
//! builder and the encoder take this from the rows; none of them knows a class by name.

mod folder;
mod hybrid;
mod scores;
mod sentence;
mod task;
#[cfg(test)]
mod tests;
mod vectors;
mod words;

use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::fields::unsupported;
use super::files::MODEL_SETTINGS;
use super::heads::{Feature, First, Head};
use super::task_head::Task;
use crate::{Error, Result};
pub use folder::{read_bare, read_listed, read_listing, read_modules};
pub use task::task_row;

/// A Transformer's task and the modules after it.
pub type Chosen = (Option<Task>, Vec<Head>);

/// A class of sentence-transformers.
#[derive(Debug)]
pub struct Class {
    /// Its name, and the `model_type` of config_sentence_transformers.json.
    pub name: &'static str,
    /// What is computed of each text or pair.
    pub result: Feature,
    /// The tasks that its Transformer may have; others are refused.
    pub tasks: &'static [Option<Task>],
    /// Tasks of the reference that are refused for a reason of their own.
    pub refused: &'static [(&'static str, &'static str)],
    /// First modules beside the Transformer, and the task of one whose settings name none.
    pub first: &'static [(&'static str, First, Option<Task>)],
    /// The task and the modules of a folder without `modules.json`.
    pub bare: fn(&Bare<'_>) -> Result<Chosen>,
    /// Refuses modules that do not give the result: the path of `modules.json`, the Transformer's task, the modules after it.
    pub check: fn(&Path, Option<Task>, &[Head]) -> Result<()>,
    /// Whether a folder that another class saved is read as one without `modules.json`.
    pub reads_others: bool,
    /// Names of the prompts that every model has, empty if the files have none.
    pub prompts: &'static [&'static str],
    /// Names of the functions that compare its results.
    pub similarities: &'static [&'static str],
    /// Its own settings in config_sentence_transformers.json.
    pub settings: &'static [(&'static str, Setting)],
    /// The setting that lists modules which compute in float32 in a model of any type.
    pub in_float32: Option<&'static str>,
    /// The name of the class in another package whose folders it loads, too.
    pub older: Option<&'static str>,
    /// Modules that such a folder ends with and does not list.
    pub implied: &'static [&'static str],
}

/// What most classes have in common.
const USUAL: Class = Class {
    name: "",
    result: Feature::Sentence,
    tasks: &[None],
    refused: &[],
    first: &[],
    bare: |folder| Err(folder.other("without modules.json it is not known what a text becomes")),
    check: |_, _, _| Ok(()),
    reads_others: false,
    prompts: &["query", "document"],
    similarities: &OF_VECTORS,
    settings: &[],
    in_float32: None,
    older: None,
    implied: &[],
};
/// The functions that compare vectors.
const OF_VECTORS: [&str; 4] = ["cosine", "dot", "euclidean", "manhattan"];

/// What a class' setting may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// A number from 1 on.
    Size,
    /// A string.
    Text,
    /// A list of strings.
    Texts,
}

/// A folder without `modules.json`.
pub struct Bare<'a> {
    /// The path of its config.json.
    pub path: &'a Path,
    /// The contents of that.
    pub config: &'a Map<String, Value>,
}

impl Bare<'_> {
    /// The names in `architectures` of config.json.
    fn classes(&self) -> impl Iterator<Item = &str> {
        let listed = self.config.get("architectures").and_then(Value::as_array);
        listed.into_iter().flatten().filter_map(Value::as_str)
    }

    /// The error for a checkpoint of other classes than those that are read.
    fn other(&self, reason: &str) -> Error {
        let classes = self.config.get("architectures").cloned().unwrap_or_default();
        unsupported(self.path, format_args!("architectures {}", super::fields::shown(&classes)), reason)
    }
}

/// All of them, the default one first.
pub static CLASSES: [&Class; 5] = [&sentence::CLASS, &scores::CLASS, &words::CLASS, &vectors::CLASS, &hybrid::CLASS];

impl Class {
    /// The class of this name.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none.
    pub fn named(name: &str) -> Result<&'static Class> {
        let unknown = || Error::InvalidArgument(format!("there is no class {name:?}"));
        CLASSES.into_iter().find(|class| class.name == name).ok_or_else(unknown)
    }

    /// The error for a folder that another class saved.
    fn other(&self, folder: &Path, saved: &str) -> Error {
        let remedy = match CLASSES.iter().find(|class| class.name == saved || class.older == Some(saved)) {
            Some(class) => format!("{} loads it", class.name),
            None => format!("known are {}", CLASSES.map(|class| class.name).join(", ")),
        };
        unsupported(&folder.join(MODEL_SETTINGS), format_args!("model_type {saved:?}"), remedy)
    }
}

impl Default for &'static Class {
    fn default() -> Self {
        CLASSES[0]
    }
}

impl PartialEq for Class {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<'de> Deserialize<'de> for &'static Class {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Class::named(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
