//! Conversion of Python strings to Rust.

use std::path::PathBuf;

use pyo3::Borrowed;
use pyo3::exceptions::{PyTypeError, PyUnicodeEncodeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use crate::error::{PyResult, Raised};
use grilly::error::brief;
use grilly::{Error, Result};

/// A str argument that is a name. pyo3's own conversion raises `UnicodeEncodeError` for a lone surrogate.
#[derive(Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(pub String);

impl FromPyObject<'_, '_> for Name {
    type Error = Raised;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        Ok(Name(string(&object, || shown(&object))?))
    }
}

/// An argument that is a path; one that is invalid on every file system is rejected as a [`Name`] is.
pub(crate) struct Location(pub PathBuf);

impl FromPyObject<'_, '_> for Location {
    type Error = Raised;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let problem = |what: &str| format!("{} {what}", shown(&object));
        object.extract::<PathBuf>().map(Location).map_err(|error| match error {
            e if e.is_instance_of::<PyUnicodeEncodeError>(object.py()) => {
                Error::InvalidArgument(problem("is not a path: it contains a lone surrogate (half a character)")).into()
            }
            e if e.is_instance_of::<PyTypeError>(object.py()) => Error::InvalidType(problem("is not a path")).into(),
            other => other.into(),
        })
    }
}

/// A list of str that is not read yet.
pub(crate) type List<'a, 'py> = &'a Bound<'py, PyList>;

/// The argument `texts`: a list of str.
pub(crate) struct Texts(pub Vec<String>);

impl FromPyObject<'_, '_> for Texts {
    type Error = Raised;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        Ok(Texts(strings(&*object.cast::<PyList>().map_err(PyErr::from)?, "texts")?))
    }
}

/// An argument as quoted in messages.
fn shown(object: &Bound<'_, PyAny>) -> String {
    object.repr().map_or_else(|_| "an argument".into(), |text| brief(text.to_string_lossy()))
}

/// The items of the argument `name`, each checked to be a str that UTF-8 can hold.
///
/// # Errors
/// `InvalidType` and `InvalidArgument` naming the first invalid item.
pub(crate) fn strings(texts: List<'_, '_>, name: &str) -> Result<Vec<String>> {
    let read = |(index, item): (usize, Bound<'_, PyAny>)| {
        string(&item, || format!("{name}[{index}]")).map_err(|error| match error {
            Error::InvalidType(text) if item.is_instance_of::<PyTuple>() || item.is_instance_of::<PyList>() => {
                Error::InvalidType(format!("{text}; pairs of texts are for a CrossEncoder"))
            }
            error => error,
        })
    };
    texts.iter().enumerate().map(read).collect()
}

/// The pairs of items at the same places, each item checked as in [`strings`].
///
/// # Errors
/// As [`strings`]; `InvalidArgument` for lists of different lengths.
pub(crate) fn pairs(firsts: List<'_, '_>, seconds: List<'_, '_>) -> Result<Vec<[String; 2]>> {
    if firsts.len() != seconds.len() {
        let problem = format!("{} first and {} second texts, expected as many of each", firsts.len(), seconds.len());
        return Err(Error::InvalidArgument(problem));
    }
    let pair = |(index, (first, second)): (usize, (Bound<'_, PyAny>, Bound<'_, PyAny>))| {
        let name = |place: usize| format!("pairs[{index}][{place}]");
        Ok([string(&first, || name(0))?, string(&second, || name(1))?])
    };
    firsts.iter().zip(seconds.iter()).enumerate().map(pair).collect()
}

/// One str; `name` returns its name for messages.
///
/// # Errors
/// `InvalidType` for another type, `InvalidArgument` for a lone surrogate.
pub(crate) fn string(item: &Bound<'_, PyAny>, name: impl Fn() -> String) -> Result<String> {
    let Ok(text) = item.cast::<PyString>() else {
        let kind = item.get_type().name().map_or_else(|_| "an unnamed type".into(), |name| name.to_string());
        return Err(Error::InvalidType(format!("{} is of type {kind}, expected str", name())));
    };
    match text.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::InvalidArgument(format!(
            "{} holds a lone surrogate (half a character); text.encode(\"utf-8\", \"replace\").decode() \
             puts a question mark in its place",
            name()
        ))),
    }
}
