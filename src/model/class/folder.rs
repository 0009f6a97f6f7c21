//! From a model's folder to its modules.

use std::path::Path;

use serde_json::{Map, Value};

use super::task::{read_task, saved_class};
use super::{Bare, Class};
use crate::model::fields::unsupported;
use crate::model::files::{read_fields, read_json};
use crate::model::heads::{Feature, First, Head, Modules, left_out, read_head, unknown_module};
use crate::model::registry;
use crate::model::routes::{Listing, Row};
use crate::{Error, Result};

/// The modules of texts without a task, of all those that `modules.json` lists; those that the class adds to a bare
/// transformer if there is no such file.
///
/// # Errors
/// As [`read_listing`], [`Listing::choose`] and [`read_listed`].
pub fn read_modules(folder: &Path, class: &Class) -> Result<Modules> {
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
pub fn read_listing(folder: &Path, class: &Class) -> Result<Option<Listing>> {
    if !folder.join("modules.json").exists() {
        return Ok(None);
    }
    let saved = saved_class(folder)?;
    let implied = if class.older == Some(&*saved) { class.implied } else { &[] };
    match saved == class.name || !implied.is_empty() {
        true => Ok(Listing::read(folder)?.map(|listing| listing.followed_by(implied))),
        false if class.reads_others => Ok(None),
        false => Err(class.other(folder, &saved)),
    }
}

/// The modules that a class adds to a folder without `modules.json`, whose config.json is `config`.
///
/// # Errors
/// `ModelFormat` if it is no folder; `Unsupported` for a checkpoint without what the class needs.
pub fn read_bare(folder: &Path, class: &Class, config: &Map<String, Value>) -> Result<Modules> {
    if !folder.is_dir() {
        return Err(Error::format(folder, "not a folder"));
    }
    let path = folder.join("config.json");
    if is_of_model2vec(config) && class.first.iter().any(|(_, first, _)| *first == First::StaticEmbedding) {
        let normalizes = read_fields(&path, |fields| Ok(fields.flag_or("normalize", false)))?;
        let normalize = normalizes.then_some(Head::Normalize { of: Feature::Sentence });
        let heads = [Head::mean()].into_iter().chain(normalize).collect();
        let (first, transformer) = (First::StaticEmbedding, String::new());
        return Ok(Modules {
            first,
            transformer,
            listed: false,
            own_class: None,
            takes_task: false,
            task: None,
            heads,
        });
    }
    let (task, heads) = (class.bare)(&Bare { path: &path, config })?;
    let (first, transformer) = (First::Transformer, String::new());
    Ok(Modules { first, transformer, listed: false, own_class: None, takes_task: false, task, heads })
}

/// Whether config.json is that of a table of token vectors of model2vec, current or older.
fn is_of_model2vec(config: &Map<String, Value>) -> bool {
    let class = config.get("architectures").and_then(|classes| classes.get(0));
    config.get("model_type").is_some_and(|kind| kind == "model2vec")
        || class.is_some_and(|class| class == "StaticModel")
}

/// Reads the configuration of each module of a list, which is not empty; `config` is the first one's config.json.
///
/// # Errors
/// `ModelFormat` for unreadable or invalid files; `Unsupported` for an unknown module or activation, and for modules that do
/// not give what the class computes.
pub fn read_listed(folder: &Path, class: &Class, rows: &[Row], config: &Map<String, Value>) -> Result<Modules> {
    let path = folder.join("modules.json");
    let Some((row, rest)) = rows.split_first() else {
        return Err(Error::format(&path, "lists no modules"));
    };
    // Which architecture it belongs to is known when config.json is read.
    let own_class = registry::own_module(&row.kind);
    let usual = ("Transformer", First::Transformer, None);
    let known = [usual].into_iter().chain(class.first.iter().copied());
    let found = known.into_iter().find(|(kind, ..)| *kind == row.kind).or(own_class.map(|_| usual));
    let Some((_, first, task)) = found else {
        let what = format!("the first module is {}", row.kind);
        return Err(match left_out(&row.kind) {
            Some(_) => unknown_module(&path, &row.kind),
            None => unsupported(&path, what, "only a Transformer or a StaticEmbedding is known there"),
        });
    };
    let (task, mut heads) = match first {
        First::Transformer => (read_task(&folder.join(&row.path), class, task)?, Vec::new()),
        First::StaticEmbedding => (None, vec![Head::mean()]),
    };
    for row in rest {
        heads.push(read_head(folder, row, config, class.result)?);
    }
    (class.check)(&path, task, &heads)?;
    let (transformer, takes_task) = (row.path.clone(), row.takes_task);
    Ok(Modules { first, transformer, listed: true, own_class, takes_task, task, heads })
}
