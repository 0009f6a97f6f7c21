//! Strict reading of configuration values: all faults of a file are collected and reported together.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{Error, Result};

#[cfg(test)]
thread_local! {
    /// The keys that this thread's readers have asked for.
    pub static ASKED: RefCell<std::collections::BTreeSet<String>> = RefCell::default();
}

/// The keys of one JSON object. A reading method that finds a fault records it and returns a harmless value;
/// [`Fields::done`] turns the recorded faults into one error.
pub struct Fields<'a> {
    values: &'a Map<String, Value>,
    path: PathBuf,
    problems: Vec<String>,
    read: RefCell<BTreeSet<String>>,
}

impl<'a> Fields<'a> {
    /// A reader of `values`, which come from the file `path`.
    pub fn new(values: &'a Map<String, Value>, path: &Path) -> Self {
        Fields { values, path: path.to_owned(), problems: Vec::new(), read: RefCell::default() }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value of `key`; null counts as absent.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.read.borrow_mut().insert(key.to_owned());
        #[cfg(test)]
        ASKED.with_borrow_mut(|asked| asked.insert(key.to_owned()));
        self.values.get(key).filter(|value| !value.is_null())
    }

    /// Whether the value of `key` is null.
    pub fn is_null(&self, key: &str) -> bool {
        self.values.get(key).is_some_and(Value::is_null)
    }

    /// Records a fault of the file.
    pub fn fault(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Whether the key is present with a value that asks for something ([`is_set`]).
    pub fn is_set(&self, key: &str) -> bool {
        self.get(key).is_some_and(is_set)
    }

    /// The keys that were asked for, in order.
    pub fn asked(&self) -> Vec<String> {
        self.read.borrow().iter().cloned().collect()
    }

    /// The keys that are set and that nothing has read.
    pub fn unread(&self) -> Vec<&'a str> {
        let read = self.read.borrow().clone();
        self.values.keys().map(String::as_str).filter(|key| !read.contains(*key) && self.is_set(key)).collect()
    }

    /// A required integer.
    pub fn size(&mut self, key: &str, range: RangeInclusive<usize>) -> usize {
        let least = *range.start();
        if self.get(key).is_none() {
            self.fault(format!("{key} is missing"));
        }
        self.optional_size(key, range).unwrap_or(least)
    }

    /// What `read` finds in the value of `key`; a fault where it finds nothing.
    fn value<T>(&mut self, key: &str, expected: impl Display, read: impl FnOnce(&'a Value) -> Option<T>) -> Option<T> {
        let value = self.get(key)?;
        let found = read(value);
        if found.is_none() {
            self.fault(format!("{key} is {}, expected {expected}", shown(value)));
        }
        found
    }

    /// An optional integer.
    pub fn optional_size(&mut self, key: &str, range: RangeInclusive<usize>) -> Option<usize> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let read = |value: &Value| usize::try_from(value.as_u64()?).ok().filter(|size| range.contains(size));
        self.value(key, expected, read)
    }

    /// An optional integer with a fault unless it is the one known.
    pub fn expect_size(&mut self, key: &str, known: usize) {
        self.value(key, known, |value| value.as_u64().filter(|size| *size == known as u64));
    }

    /// A number, or `default`.
    pub fn number_or(&mut self, key: &str, default: f64, range: RangeInclusive<f64>) -> f64 {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        let read = |value: &Value| value.as_f64().filter(|number| range.contains(number));
        self.value(key, expected, read).unwrap_or(default)
    }

    /// An optional list of numbers.
    pub fn numbers(&mut self, key: &str) -> Option<Vec<f64>> {
        self.value(key, "a list of numbers", |value| value.as_array()?.iter().map(Value::as_f64).collect())
    }

    /// An optional string.
    pub fn text(&mut self, key: &str) -> Option<&'a str> {
        self.value(key, "a string", Value::as_str)
    }

    /// What the name in a key stands for, or `default`.
    ///
    /// # Errors
    /// `Unsupported` for another name.
    pub fn choice<T: Copy>(&mut self, key: &str, default: &str, known: &[(&str, T)]) -> Result<T> {
        let name = self.text(key).unwrap_or(default);
        let found = known.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning);
        found.ok_or_else(|| {
            let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            unsupported(&self.path, format!("{key} {name:?}"), format!("known are {}", known.join(", ")))
        })
    }

    /// A boolean, or `default`.
    pub fn flag_or(&mut self, key: &str, default: bool) -> bool {
        self.value(key, "true or false", Value::as_bool).unwrap_or(default)
    }

    /// An optional object.
    pub fn object(&mut self, key: &str) -> Option<&'a Map<String, Value>> {
        self.value(key, "an object", Value::as_object)
    }

    /// What `read` finds in an optional object, whose faults are recorded under its key.
    pub fn within<T>(&mut self, key: &str, read: impl FnOnce(&mut Fields<'a>) -> T) -> Option<T> {
        let mut inner = Fields::new(self.object(key)?, &self.path);
        let found = read(&mut inner);
        self.problems.extend(inner.problems.iter().map(|problem| format!("{key}: {problem}")));
        Some(found)
    }

    /// An optional list of strings.
    pub fn texts(&mut self, key: &str) -> Option<Vec<&'a str>> {
        self.value(key, "a list of strings", |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `ModelFormat` with every recorded fault.
    pub fn done(self) -> Result<()> {
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(Error::ModelFormat { path: self.path, problem: self.problems.join("; ") })
    }
}

/// The error for a value of the file `path` that is valid but has no counterpart here.
pub fn unsupported(path: &Path, what: impl Display, reason: impl Into<String>) -> Error {
    Error::unsupported(format!("{}: {what}", path.display()), reason)
}

/// Whether a value asks for something: not null, false, or an empty string, list or object.
pub fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
        _ => true,
    }
}

/// A value as quoted in messages: the start of its JSON.
pub fn shown(value: &Value) -> String {
    const MOST: usize = 60;
    let text = value.to_string();
    if text.chars().count() <= MOST {
        return text;
    }
    text.chars().take(MOST).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let values = object(r#"{"a": 0, "b": 1.5, "c": "3", "d": -4, "e": 1e99, "f": null, "g": "yes", "h": []}"#);
        let mut fields = Fields::new(&values, Path::new("config.json"));
        for key in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(fields.size(key, 1..=9), 1);
        }
        assert!(fields.flag_or("g", true));
        assert_eq!(fields.number_or("e", 0.5, 0.0..=1.0), 0.5);
        assert_eq!(fields.text("a"), None);
        assert_eq!(fields.object("h"), None);
        assert!(!fields.is_set("h") && !fields.is_set("f") && fields.is_set("a"));
        let message = fields.done().unwrap_err().to_string();
        for part in ["a is 0", "b is 1.5", "c is \"3\"", "d is -4", "f is missing", "g is \"yes\"", "h is []"] {
            assert!(message.contains(part), "{part} not in {message}");
        }
    }

    #[test]
    fn long_values_are_cut_in_messages() {
        let text = shown(&Value::String("é".repeat(500)));
        assert!(text.chars().count() < 70 && text.ends_with("..."));
    }
}
