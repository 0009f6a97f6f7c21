//! From a model's folder to its modules.

use std::path::Path;

use serde_json::{Map, Value};

use super::class::{read_task, saved_class};
use super::known::{WORDS_AS_SCORES, left_out, unknown_module};
use super::read::read_head;
use super::{Class, Feature, First, Head, Modules, SpladePooling};
use crate::model::config::read_json;
use crate::model::fields::{shown, unsupported};
use crate::model::registry;
use crate::model::routes::{Listing, Row};
use crate::model::task_head::Task;
use crate::ops::PoolMode;
use crate::{Error, Result};

/// The modules of texts without a task, of all those that `modules.json` lists; those that the class adds to a bare
/// transformer if there is no such file.
///
/// # Errors
/// As [`read_listing`], [`Listing::choose`] and [`read_listed`].
pub fn read_modules(folder: &Path, class: Class) -> Result<Modules> {
    let config = |path: &str| read_json(&folder.join(path).join("config.json")).unwrap_or_default();
    match read_listing(folder, class)? {
        Some(listing) => {
            let rows = listing.choose(None)?;
            read_listed(folder, class, &rows, &config(rows.first().map_or("", |row| &row.path)))
        }
        None => read_bare(folder, class, &config("")),
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

/// The modules that a class adds to a folder without `modules.json`, whose config.json is `config`.
///
/// # Errors
/// `ModelFormat` if it is no folder; `Unsupported` for a checkpoint without what the class needs.
pub fn read_bare(folder: &Path, class: Class, config: &Map<String, Value>) -> Result<Modules> {
    if !folder.is_dir() {
        return Err(Error::format(folder, "not a folder"));
    }
    let path = folder.join("config.json");
    let classes = config.get("architectures").cloned().unwrap_or_default();
    let names: Vec<&str> = classes.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let (task, heads) = match class {
        Class::SentenceTransformer => {
            (None, vec![Head::Pooling { modes: vec![usual_pooling(config)], include_prompt: true }])
        }
        Class::CrossEncoder => {
            if names.first().is_some_and(|class| class.ends_with("ForCausalLM")) {
                return Err(unsupported(&path, format_args!("architectures {}", shown(&classes)), WORDS_AS_SCORES));
            }
            (Some(Task::Scores), Vec::new())
        }
        Class::SparseEncoder if !names.iter().any(|class| class.ends_with("ForMaskedLM")) => {
            let what = format!("architectures {}", shown(&classes));
            return Err(unsupported(&path, what, "without modules.json a ...ForMaskedLM is expected there"));
        }
        Class::SparseEncoder => {
            (Some(Task::Words), vec![Head::SpladePooling(SpladePooling { mode: PoolMode::Max, twice: false })])
        }
    };
    let (first, transformer) = (First::Transformer, String::new());
    Ok(Modules { first, transformer, listed: false, own_class: None, takes_task: false, task, heads })
}

/// Reads the configuration of each module of a list, which is not empty; `config` is the first one's config.json.
///
/// # Errors
/// `ModelFormat` for unreadable or invalid files; `Unsupported` for an unknown module or activation.
pub fn read_listed(folder: &Path, class: Class, rows: &[Row], config: &Map<String, Value>) -> Result<Modules> {
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
        ("MLMTransformer", Class::SparseEncoder) => {
            (First::Transformer, read_task(&transformer, class, Some(Task::Words))?, Vec::new())
        }
        ("StaticEmbedding", Class::SentenceTransformer) => (First::StaticEmbedding, None, vec![Head::mean()]),
        (other, _) if left_out(other).is_some() => return Err(unknown_module(&path, other)),
        (other, _) => {
            let what = format!("the first module is {other}");
            return Err(unsupported(&path, what, "only a Transformer or a StaticEmbedding is known there"));
        }
    };
    for row in rest {
        heads.push(read_head(folder, row, config)?);
    }
    if class == Class::SparseEncoder && !matches!(heads[..], [Head::SpladePooling(_)]) {
        let names: Vec<&str> = heads.iter().map(|head| head.shown().0).collect();
        let what = format!("modules {names:?} of a SparseEncoder");
        return Err(unsupported(&path, what, "SpladePooling alone is known after the Transformer"));
    }
    let gives = |feature: Feature, head: &Head| match head {
        Head::Pooling { .. } | Head::SpladePooling(_) => feature == Feature::Sentence,
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

/// Pooling of a bare transformer: of the last token after a causal language model, otherwise the mean.
fn usual_pooling(config: &Map<String, Value>) -> PoolMode {
    let class = config.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
    match !matches!(config.get("is_causal"), Some(Value::Null | Value::Bool(false)))
        && class.is_some_and(|class| class.ends_with("ForCausalLM"))
    {
        true => PoolMode::LastToken,
        false => PoolMode::Mean,
    }
}
