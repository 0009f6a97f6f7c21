//! The keys of config.json that the reference reads, as the table `keys.json` has them, and what becomes of a key.
//!
//! `scripts/reference_keys.py` finds what the reference reads; the table says which of it the readers here honour, which
//! has to have a value, and which changes no result. A form is a `model_type`, or a model under the name of another.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::Result;
use crate::model::fields::{Fields, shown, unsupported};
use crate::model::nearest::nearest;

/// The keys of a form.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Form {
    /// Other names of keys, which count before the keys' own as in the reference (`attribute_map`).
    names: BTreeMap<String, String>,
    /// Keys that the readers here honour.
    honoured: Vec<String>,
    /// Keys with the values that are computed; null, or no key, is one of them.
    only: BTreeMap<String, Vec<Value>>,
    /// Keys of `honoured` and `only`, here or in any form, that the reference does not read: they tell models under the
    /// name of another.
    #[allow(dead_code, reason = "of the script's")]
    marks: Vec<String>,
    /// Keys that the reference reads, without effect on results here.
    idle: Vec<String>,
}

/// The form that stands for what is read for every form.
const ALL: &str = "all";
static FORMS: LazyLock<BTreeMap<String, Form>> =
    LazyLock::new(|| serde_json::from_str(include_str!("keys.json")).expect("a valid table"));

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Honoured,
    /// One of the values.
    Only(&'static [Value]),
    Idle,
    /// The reference does not read it.
    Unread,
}

/// The kind of a key, by the form or else by what all forms have.
fn kind(form: &str, key: &str) -> Kind {
    for form in [form, ALL].iter().filter_map(|name| FORMS.get(*name)) {
        if let Some(known) = form.only.get(key) {
            return Kind::Only(known);
        }
        if form.honoured.iter().any(|known| known == key) {
            return Kind::Honoured;
        }
        if form.idle.iter().any(|known| known == key) {
            return Kind::Idle;
        }
    }
    Kind::Unread
}

/// The configuration under the keys that the form's reader honours.
///
/// A key that the reference does not read is left out: all of them are listed in a record of level debug, and one that is
/// nearly a key that is read is named by a warning.
///
/// # Errors
/// `Unsupported` for a key with another value than those that are computed.
pub(super) fn honoured(form: &str, config: &Map<String, Value>, path: &Path) -> Result<Map<String, Value>> {
    let (kept, unread) = sorted(form, config, path)?;
    report(&path.display().to_string(), &unread, &known(form));
    Ok(kept)
}

/// The same, and the keys that the reference does not read.
fn sorted<'a>(form: &str, config: &'a Map<String, Value>, path: &Path) -> Result<(Map<String, Value>, Vec<&'a str>)> {
    let mut kept = Map::new();
    let mut unread = Vec::new();
    let names = FORMS.get(form).map(|form| &form.names);
    for (key, value) in config {
        if names.is_some_and(|names| names.contains_key(key)) {
            continue;
        }
        match kind(form, key) {
            Kind::Honoured => _ = kept.insert(key.clone(), value.clone()),
            Kind::Only(known) => only(key, value, known, path)?,
            Kind::Idle => (),
            Kind::Unread => unread.push(key.as_str()),
        }
    }
    for (other, key) in names.into_iter().flatten() {
        if let Some(value) = config.get(other).filter(|value| !value.is_null()) {
            kept.insert(key.clone(), value.clone());
        }
    }
    Ok((kept, unread))
}

/// The keys of a form that change results.
fn known(form: &str) -> Vec<&'static str> {
    let forms = [form, ALL].into_iter().filter_map(|name| FORMS.get(name));
    forms
        .flat_map(|form| form.honoured.iter().chain(form.only.keys()).chain(form.names.keys()))
        .map(String::as_str)
        .collect()
}

/// Refuses a value other than those known; null is the usual value.
///
/// # Errors
/// `Unsupported` naming the key, its value and the known ones.
pub(super) fn only(key: &str, value: &Value, known: &[Value], path: &Path) -> Result<()> {
    let same = |other: &Value| value == other || value.is_number() && value.as_f64() == other.as_f64();
    if value.is_null() || known.iter().any(same) {
        return Ok(());
    }
    let known = known.iter().map(Value::to_string).collect::<Vec<_>>().join(" or ");
    let known = if known.is_empty() { "null".to_owned() } else { known };
    let reason =
        format!("only {known} is known; a model with another value has to be run by the library it was made with");
    Err(unsupported(path, format_args!("{key} {}", shown(value)), reason))
}

/// Lists the keys of an inner object that are not read, and warns of those that are nearly one that is.
pub(super) fn report_inner(place: &str, fields: &Fields<'_>) {
    let asked = fields.asked();
    report(place, &fields.unread(), &asked.iter().map(String::as_str).collect::<Vec<_>>());
}

/// Lists the keys that are not read, and warns of those that are nearly a known one.
fn report(place: &str, unread: &[&str], known: &[&str]) {
    for (key, near) in misspelt(unread, known) {
        log::warn!(target: "grilly", "{place}: {key} is not read; {near} is: correct it if it is meant");
    }
    if !unread.is_empty() {
        log::debug!(target: "grilly", "{place}: keys that are not read: {}", unread.join(", "));
    }
}

/// The keys that are nearly a known one, with it; names that start with `_` are notes of the libraries.
fn misspelt<'a>(unread: &[&'a str], known: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let unknown = unread.iter().filter(|key| !known.contains(key) && !key.starts_with('_'));
    unknown.filter_map(|key| Some((*key, nearest(key, known.iter().copied())?))).collect()
}

#[cfg(test)]
mod tests;
