//! Python's strings as Rust's.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};

use crate::{Error, Result};

/// The items of `texts`, each checked to be a str that UTF-8 can hold.
///
/// # Errors
/// `InvalidType` and `InvalidArgument` naming the first offender.
pub(super) fn strings(texts: &Bound<'_, PyList>) -> Result<Vec<String>> {
    texts.iter().enumerate().map(|(index, item)| string(&item, || format!("texts[{index}]"))).collect()
}

/// One str; `name` says in messages what it is.
///
/// # Errors
/// `InvalidType` for another type, `InvalidArgument` for a lone surrogate.
pub(super) fn string(item: &Bound<'_, PyAny>, name: impl Fn() -> String) -> Result<String> {
    let Ok(text) = item.cast::<PyString>() else {
        let kind = item.get_type().name().map_or_else(|_| "an unnamed type".into(), |name| name.to_string());
        return Err(Error::InvalidType(format!("{} is of type {kind}, expected str", name())));
    };
    match text.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::InvalidArgument(format!(
            "{} holds a lone surrogate, which is half a character; text.encode(\"utf-8\", \"replace\").decode() \
             puts a question mark in its place",
            name()
        ))),
    }
}
