//! Reads the files of a model's folder.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::brief;
use crate::process::memory::need_many;
use crate::{Error, Result};

/// Bytes of memory that a byte of a vocabulary takes in the maps of its tokens.
const PARSED: u128 = 16;

pub(super) fn fault(path: &Path, problem: String) -> Error {
    Error::format(path, problem)
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    // Checked before reading, since reading a pipe would block until its other end opens.
    if !path.is_file() {
        return Err(fault(path, "not a regular file".into()));
    }
    let bytes = std::fs::metadata(path).map_or(0, |about| about.len());
    need_many(PARSED * u128::from(bytes), &format!("the tokens of {}", path.display()))?;
    std::fs::read(path).map_err(|e| fault(path, format!("cannot be read: {e}")))
}

/// A JSON file as an object; `None` if there is no such file.
pub(super) fn read_object(path: &Path) -> Result<Option<Map<String, Value>>> {
    if !path.exists() {
        return Ok(None);
    }
    serde_json::from_slice(&read(path)?).map(Some).map_err(|e| fault(path, format!("not a JSON object: {}", brief(e))))
}
