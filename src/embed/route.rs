//! What the texts of a task pass through: a tokenizer, an encoder with or without an adapter, modules.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::expansion::Filler;
use super::scored::Mask;
use super::stages::{Source, Stage};
use crate::dtype::DType;
use crate::model::config::SentenceConfig;
use crate::model::heads::Modules;
use crate::model::routes::Row;
use crate::model::spec::EncoderSpec;
use crate::model::task_head::TaskHead;
use crate::numerics::Numerics;
use crate::text::chat::Chat;
use crate::text::tokenizer::Tokenizer;
use crate::{Error, Result};

/// One choice of the modules of a model.
pub struct Route {
    /// The model's.
    pub(super) folder: PathBuf,
    pub(super) config_json: String,
    pub(super) model_type: String,
    pub(super) sentence: SentenceConfig,
    pub(super) modules: Modules,
    /// Those of `modules.json` that texts pass through; none without such a file.
    pub(super) rows: Vec<Row>,
    pub(super) spec: EncoderSpec,
    pub(super) head: Option<TaskHead>,
    pub(super) tokenizer: Tokenizer,
    /// The template of which texts become messages.
    pub(super) chat: Option<Chat>,
    /// The tokenizer's own threads if their number was given; otherwise it uses the process' threads.
    pub(super) tokenizer_threads: Option<Arc<rayon::ThreadPool>>,
    /// What is put after the tokens of queries.
    pub(super) filler: Option<Filler>,
    /// Which token vectors are scored.
    pub(super) masks: Vec<Mask>,
    pub(super) source: Source,
    /// Whether tokens and weights are multiplied as 8-bit integers.
    pub(super) integers: bool,
    pub(super) max_seq_length: AtomicUsize,
    pub(super) include_prompt: AtomicBool,
    /// The task whose adapter encodes texts without a task.
    pub(super) default_task: Option<String>,
}

impl Route {
    /// Columns of an embedding, or scores of a pair.
    pub fn dimension(&self) -> usize {
        self.source.encoders[0].dimension()
    }

    /// The type to which the weights are rounded; int8 where those of products are, and the rest to a floating-point type.
    pub fn dtype(&self) -> DType {
        if self.integers { DType::I8 } else { self.source.weights.rounded }
    }

    /// What its numbers mean.
    pub fn numerics(&self) -> Numerics {
        self.source.encoders[0].plan.numerics
    }

    /// `config.json` as text.
    pub fn config_json(&self) -> &str {
        &self.config_json
    }

    /// `model_type` of config.json.
    pub fn model_type(&self) -> &str {
        &self.model_type
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The form of the messages that texts become: `flat` or `structured`; `None` for texts as they are.
    pub fn messages(&self) -> Option<&'static str> {
        self.chat.as_ref().map(|chat| chat.form().name())
    }

    /// Whether a call's task chooses among adapters.
    pub(super) fn chooses_adapters(&self) -> bool {
        self.modules.takes_task && self.spec.adapters.is_some()
    }

    /// What is put after the tokens of texts of a task.
    pub(super) fn filler(&self, task: Option<&str>) -> Option<&Filler> {
        self.filler.as_ref().filter(|_| task == Some("query"))
    }

    /// The encoder with the weights that a task chooses: as they are, or with its adapter; that of texts whose last tokens are
    /// not seen is the last.
    ///
    /// # Errors
    /// `InvalidArgument` for a task without an adapter, listing those that have one.
    pub(super) fn stage(&self, task: Option<&str>) -> Result<&Stage> {
        let encoders = &self.source.encoders;
        if self.filler(task).is_some_and(|filler| !filler.expansion.seen) {
            return Ok(&encoders[encoders.len() - 1]);
        }
        let Some(adapters) = &self.spec.adapters else { return Ok(&encoders[0]) };
        // A module that does not take the task has the model's default.
        let given = task.filter(|task| self.modules.takes_task && !task.is_empty());
        let Some(task) = given.or(self.default_task.as_deref()) else { return Ok(&encoders[0]) };
        let place = adapters.tasks.iter().position(|known| known == task);
        place.map(|place| &encoders[1 + place]).ok_or_else(|| {
            let known = &adapters.tasks;
            Error::InvalidArgument(format!("task is {task:?}, expected one of {known:?}, or none for no adapter"))
        })
    }

    /// Maximum tokens of a text.
    pub(super) fn max_seq_length(&self) -> usize {
        self.max_seq_length.load(Relaxed)
    }

    /// Maximum tokens of a text of a task.
    pub(super) fn longest(&self, task: Option<&str>) -> usize {
        let processing = &self.sentence.processing;
        let own = self.sentence.task_length(task).filter(|_| self.modules.gives_task_to_tokenizer());
        let fixed = self.filler(task).map(|filler| &filler.expansion).filter(|expansion| expansion.fixed);
        let stated = match fixed {
            Some(expansion) => Some(expansion.length),
            None => processing.max_length.or(own),
        };
        let stated = if processing.truncates { stated } else { Some(usize::MAX) };
        stated.map_or(self.max_seq_length(), |most| most.min(self.spec.positions.longest_text()))
    }
}

/// The token limit per text, reduced to what the model supports.
pub(super) fn clamp_length(most: usize, spec: &EncoderSpec) -> usize {
    let longest = spec.positions.longest_text();
    if most > longest {
        log::warn!(
            target: "grilly",
            "max_seq_length {most} is more than the model's {longest} positions; using {longest}"
        );
    }
    most.clamp(1, longest)
}
