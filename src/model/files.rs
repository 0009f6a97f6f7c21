//! Reads the JSON files of a model's folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::fields::{Fields, shown};
use crate::error::brief;
use crate::process::memory::need_many;
use crate::{Error, Result};

/// Maximum size of a configuration file in bytes; the index of a large sharded checkpoint has a few megabytes.
const LONGEST_FILE: u64 = 100_000_000;
/// Bytes of memory that a byte of JSON may take: a list of numbers of one digit has the most.
const PARSED: u128 = 32;
/// The file with the class that saved a folder, and the settings of the model.
pub(super) const MODEL_SETTINGS: &str = "config_sentence_transformers.json";
/// File names under which versions of sentence-transformers save the settings.
pub const SETTINGS_FILES: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// Reads a JSON file as an object.
///
/// # Errors
/// `ModelFormat` naming the file.
pub fn read_json(path: &Path) -> Result<Map<String, Value>> {
    let bytes = read_bytes(path)?;
    match serde_json::from_slice(&bytes).map_err(|e| Error::format(path, format!("not valid JSON: {e}")))? {
        Value::Object(values) => Ok(values),
        other => Err(Error::format(path, format!("holds {}, expected a JSON object", shown(&other)))),
    }
}

/// Reads the values of a JSON file with `read`; all faults are reported together.
///
/// # Errors
/// `ModelFormat` naming the file, or the error of `read`.
pub(super) fn read_fields<T>(path: &Path, read: impl FnOnce(&mut Fields<'_>) -> Result<T>) -> Result<T> {
    let values = read_json(path)?;
    let mut fields = Fields::new(&values, path);
    let found = read(&mut fields)?;
    fields.done().map(|()| found)
}

/// Reads a whole configuration file.
///
/// # Errors
/// `ModelFormat` for a file that is missing, unreadable, not a regular file or too large for a configuration.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let unreadable = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => Error::format(path, "no such file"),
        _ => Error::format(path, format!("cannot be read: {e}")),
    };
    let about = fs::metadata(path).map_err(unreadable)?;
    if !about.is_file() {
        return Err(Error::format(path, "not a regular file"));
    }
    if about.len() > LONGEST_FILE {
        return Err(Error::format(path, format!("has {} bytes, at most {LONGEST_FILE} are read", about.len())));
    }
    need_many(PARSED * u128::from(about.len()), &format!("the values of {}", path.display()))?;
    fs::read(path).map_err(unreadable)
}

/// An object in the order of the file, which `serde_json::Map` does not preserve.
pub(super) struct Ordered(pub Vec<(String, Value)>);

/// Reads a JSON file as `T`.
///
/// # Errors
/// `ModelFormat` naming the file.
pub(super) fn read_as<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_slice(&read_bytes(path)?).map_err(|e| Error::format(path, format!("not valid JSON: {}", brief(e))))
}

impl<'de> serde::Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrderedVisitor)
    }
}

struct OrderedVisitor;

impl<'de> Visitor<'de> for OrderedVisitor {
    type Value = Ordered;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
        let mut entries: Vec<(String, Value)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            entries.retain(|(known, _)| *known != name);
            entries.push((name, value));
        }
        Ok(Ordered(entries))
    }
}

/// Whether a folder holds a GGUF file.
pub(super) fn holds_gguf(folder: &Path) -> bool {
    let is_gguf = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| entry.path().extension().is_some_and(|end| end.eq_ignore_ascii_case("gguf")))
    };
    fs::read_dir(folder).is_ok_and(|mut entries| entries.any(is_gguf))
}

/// The first settings file that is not empty.
pub(super) fn transformer_settings(transformer: &Path) -> Result<Option<(PathBuf, Map<String, Value>)>> {
    for path in SETTINGS_FILES.map(|name| transformer.join(name)) {
        if !path.exists() {
            continue;
        }
        let values = read_json(&path)?;
        if !values.is_empty() {
            return Ok(Some((path, values)));
        }
    }
    Ok(None)
}
