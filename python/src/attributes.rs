//! Attributes of ops from Python, parsed once and cached by their bits.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use grilly::Error;
use grilly::array::Hashed;
use grilly::embed::read_options;
use grilly::numerics::Numerics;
use grilly::ops::Op;
use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde::de::DeserializeOwned;

use crate::error::{PyResult, Raised};
use crate::text::Name;

/// Maximum number of ops cached per thread.
const MOST: usize = 512;

thread_local! {
    /// Ops by name and attributes in the form of [`key`].
    static KNOWN: RefCell<HashMap<Vec<u8>, Rc<Hashed>>> = RefCell::default();
}

/// The op of this name with these attributes.
pub(crate) fn parsed(op: &str, attributes: &Bound<'_, PyDict>) -> PyResult<Rc<Hashed>> {
    let key = if Op::recurs(op) { key(op, attributes)? } else { None };
    if let Some(known) = key.as_ref().and_then(|key| KNOWN.with_borrow(|known| known.get(key).cloned())) {
        return Ok(known);
    }
    let made = Rc::new(Hashed::from(Op::from_attributes(op, json(attributes)?)?));
    if let Some(key) = key {
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(key, made.clone());
        });
    }
    Ok(made)
}

/// The meaning of numbers that a caller names.
pub(crate) fn chosen(numerics: Option<Name>) -> grilly::Result<Option<Numerics>> {
    numerics.map(|name| name.0.parse()).transpose()
}

/// Name and attributes as bytes, in the given order; `None` if an attribute is neither a number nor a string.
fn key(op: &str, attributes: &Bound<'_, PyDict>) -> PyResult<Option<Vec<u8>>> {
    let mut key = Vec::with_capacity(64);
    let text = |key: &mut Vec<u8>, text: &str| {
        key.extend((text.len() as u32).to_le_bytes());
        key.extend(text.as_bytes());
    };
    text(&mut key, op);
    for (name, value) in attributes {
        let Ok(name) = name.cast::<PyString>() else { return Ok(None) };
        // Invalid text is rejected where it is parsed.
        let Ok(name) = name.to_str() else { return Ok(None) };
        text(&mut key, name);
        if let Ok(flag) = value.cast::<PyBool>() {
            key.extend([0, u8::from(flag.is_true())]);
        } else if value.is_instance_of::<PyFloat>() {
            key.push(1);
            key.extend(value.extract::<f64>()?.to_bits().to_le_bytes());
        } else if value.is_instance_of::<PyInt>() {
            let Ok(number) = value.extract::<i64>() else { return Ok(None) };
            key.push(2);
            key.extend(number.to_le_bytes());
        } else if let Some(Ok(own)) = value.cast::<PyString>().ok().map(|value| value.to_str()) {
            key.push(3);
            text(&mut key, own);
        } else if value.is_none() {
            key.push(4);
        } else {
            return Ok(None);
        }
    }
    Ok(Some(key))
}

/// An argument that is a dict of options.
pub(crate) struct Options<T>(pub T);

impl<T: DeserializeOwned> FromPyObject<'_, '_> for Options<T> {
    type Error = Raised;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        Ok(Options(read_options(json(&object)?)?))
    }
}

/// Attributes or options as JSON.
pub(crate) fn json(value: &Bound<'_, PyAny>) -> PyResult<serde_json::Value> {
    named(value, "attribute")
}

/// A value as JSON, and its name in messages.
fn named(value: &Bound<'_, PyAny>, name: &str) -> PyResult<serde_json::Value> {
    use serde_json::Value;
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(flag.is_true().into());
    }
    if value.is_instance_of::<PyInt>() {
        let number = value.extract::<u64>().map(Value::from).or_else(|_| value.extract::<i64>().map(Value::from));
        let wrong = || Error::InvalidArgument(format!("{name} is {value}, expected an integer of 64 bits"));
        return Ok(number.map_err(|_| wrong())?);
    }
    if value.is_instance_of::<PyFloat>() {
        let number: f64 = value.extract()?;
        let exact = serde_json::Number::from_f64(number);
        return exact
            .map(Value::Number)
            .ok_or_else(|| Error::InvalidArgument(format!("{name} is {number}, expected a finite number")).into());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(crate::text::string(text, || name.into())?.into());
    }
    if let Ok(items) = value.cast::<PyDict>() {
        let pairs = items.iter().map(|(key, value)| {
            let key = key.extract::<String>()?;
            let value = named(&value, &key)?;
            Ok((key, value))
        });
        return Ok(Value::Object(pairs.collect::<PyResult<_>>()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return Ok(Value::Array(value.try_iter()?.map(|item| named(&item?, name)).collect::<PyResult<_>>()?));
    }
    Err(Error::InvalidType(format!("{name} is of type {}, which no attribute has", value.get_type().name()?)).into())
}
