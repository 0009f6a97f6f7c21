//! Which element type a model is in where its user names none: as transformers 5 decides.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::config::transformer_settings;
use super::fields::shown;
use super::weights::Weights;
use crate::dtype::DType;
use crate::{Error, Result};

/// Names of torch's types besides NumPy's.
const OTHER_NAMES: [(&str, DType); 2] = [("float", DType::F32), ("half", DType::F16)];

/// What weights are to be rounded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DTypeChoice {
    /// This type.
    Given(DType),
    /// What config.json says; else what the checkpoint is stored in.
    Auto,
    /// What the Transformer module's settings say; else as `Auto`.
    Model,
}

/// Where a model may say its type.
pub struct Sources<'a> {
    /// The Transformer module's folder, where its settings count: beside `modules.json`.
    pub settings: Option<&'a Path>,
    /// config.json.
    pub config: &'a Map<String, Value>,
    /// Its path.
    pub path: &'a Path,
    /// The checkpoint.
    pub weights: &'a Weights,
}

impl Sources<'_> {
    /// The type of the model.
    ///
    /// # Errors
    /// `Unsupported` for a type that is not computed in, `ModelFormat` for what names none; both with file and key.
    pub fn dtype(&self, choice: DTypeChoice) -> Result<DType> {
        if let DTypeChoice::Given(dtype) = choice {
            return Ok(dtype);
        }
        if let (DTypeChoice::Model, Some(folder)) = (choice, self.settings)
            && let Some((path, values)) = transformer_settings(folder)?
        {
            // The older name hides the newer one, as in sentence-transformers.
            let kwargs = ["model_args", "model_kwargs"].iter().find_map(|key| values.get(*key)?.as_object());
            if let Some((key, value)) = kwargs.and_then(entry).filter(|(_, value)| value.as_str() != Some("auto")) {
                return named(&path, key, value);
            }
        }
        match entry(self.config) {
            Some((key, value)) => named(self.path, key, value),
            None => self.stored(),
        }
    }

    /// The type that the checkpoint's index states, or of its first tensor of floating-point numbers.
    fn stored(&self) -> Result<DType> {
        let Some(stated) = self.weights.stored_dtype() else { return Ok(DType::F32) };
        named(&stated.file, &stated.key, &Value::String(stated.name.clone()))
    }
}

/// `dtype`, or the older `torch_dtype`, with its key.
fn entry(values: &Map<String, Value>) -> Option<(&'static str, &Value)> {
    ["dtype", "torch_dtype"].into_iter().find_map(|key| Some((key, values.get(key).filter(|value| !value.is_null())?)))
}

/// The type that `value` names; a map by part of the model names the whole model's under "".
fn named(path: &Path, key: &str, value: &Value) -> Result<DType> {
    let name = match value {
        Value::String(name) => name.as_str(),
        Value::Object(parts) => parts.get("").and_then(Value::as_str).unwrap_or("float32"),
        other => {
            let problem = format!("{key} is {}, expected the name of a type", shown(other));
            return Err(Error::ModelFormat { path: PathBuf::from(path), problem });
        }
    };
    let other = OTHER_NAMES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype);
    other.or_else(|| name.parse().ok()).ok_or_else(|| Error::Unsupported {
        what: format!("{}: {key} {name:?}", path.display()),
        reason: "known are float32, float16 and bfloat16; name one of them when loading, as dtype=\"float32\"".into(),
    })
}

#[cfg(test)]
mod tests;
