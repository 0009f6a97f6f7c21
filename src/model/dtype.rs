//! The default element type of a model, chosen as in transformers 5.

use std::path::Path;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::fields::{shown, unsupported};
use super::files::transformer_settings;
use super::weights::Weights;
use crate::dtype::DType;
use crate::{Error, Result};

/// Names of torch types in addition to NumPy's. Those that are only stored are computed in float32.
const OTHER_NAMES: [(&str, DType); 6] = [
    ("float", DType::F32),
    ("half", DType::F16),
    ("float64", DType::F32),
    ("double", DType::F32),
    ("float8_e4m3fn", DType::F32),
    ("float8_e5m2", DType::F32),
];

/// How the type to which weights are rounded is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DTypeChoice {
    /// This type.
    Given(DType),
    /// The same, but integers where config.json says so.
    Default(DType),
    /// Integers where config.json says so; the type in config.json, or else the checkpoint's.
    Auto,
    /// The type in the Transformer module's settings, or else as `Auto`.
    Model,
    /// 8-bit integers in products of tokens and weights, `"int8"`; the rest in bfloat16 for a checkpoint of that type, else in
    /// float16; where numbers are the same everywhere, in float32.
    Integers,
}

impl DTypeChoice {
    /// The choice for a model whose config.json says that products are in integers, or does not.
    pub fn of_model(self, integers: bool) -> Self {
        match self {
            DTypeChoice::Default(_) | DTypeChoice::Auto | DTypeChoice::Model if integers => DTypeChoice::Integers,
            own => own,
        }
    }
}

impl FromStr for DTypeChoice {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(DTypeChoice::Auto),
            "int8" => Ok(DTypeChoice::Integers),
            _ => name.parse().map(DTypeChoice::Given),
        }
    }
}

/// The places where a model may state its type.
pub struct Sources<'a> {
    /// Folder of the Transformer module, beside `modules.json`, if its settings apply.
    pub settings: Option<&'a Path>,
    /// config.json.
    pub config: &'a Map<String, Value>,
    /// Its path.
    pub path: &'a Path,
    /// The checkpoint.
    pub weights: &'a Weights,
}

impl Sources<'_> {
    /// The type of the model's floating-point numbers.
    ///
    /// # Errors
    /// `Unsupported` for a type without arithmetic here, `ModelFormat` for a value that is not the name of a type; both
    /// with file and key.
    pub fn dtype(&self, choice: DTypeChoice) -> Result<DType> {
        match choice {
            DTypeChoice::Given(dtype) | DTypeChoice::Default(dtype) => return Ok(dtype),
            DTypeChoice::Integers => {
                let own = self.dtype(DTypeChoice::Auto)?;
                return Ok(if own == DType::Bf16 { own } else { DType::F16 });
            }
            DTypeChoice::Auto | DTypeChoice::Model => {}
        }
        if let (DTypeChoice::Model, Some(folder)) = (choice, self.settings)
            && let Some((path, values)) = transformer_settings(folder)?
        {
            // The older key overrides the newer one, as in sentence-transformers.
            let kwargs = ["model_args", "model_kwargs"].iter().find_map(|key| values.get(*key)?.as_object());
            if let Some((key, value)) = kwargs.and_then(entry).filter(|(_, value)| value.as_str() != Some("auto")) {
                return named(&path, key, value);
            }
        }
        match (entry(self.config), self.weights.stored_dtype()) {
            (Some((key, value)), _) => named(self.path, key, value),
            (None, Some(stated)) => named(&stated.file, &stated.key, &Value::String(stated.name.clone())),
            (None, None) => Ok(DType::F32),
        }
    }
}

/// `dtype`, or the older `torch_dtype`, with its key.
fn entry(values: &Map<String, Value>) -> Option<(&'static str, &Value)> {
    ["dtype", "torch_dtype"].into_iter().find_map(|key| Some((key, values.get(key).filter(|value| !value.is_null())?)))
}

/// The type that `value` names; in a map by part of the model, the key "" names the type of the whole model.
fn named(path: &Path, key: &str, value: &Value) -> Result<DType> {
    let name = match value {
        Value::String(name) => name.as_str(),
        Value::Object(parts) => parts.get("").and_then(Value::as_str).unwrap_or("float32"),
        other => {
            return Err(Error::format(path, format!("{key} is {}, expected the name of a type", shown(other))));
        }
    };
    let other = OTHER_NAMES.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype);
    other.or_else(|| name.parse().ok()).ok_or_else(|| {
        let known = "known are float32, float16, bfloat16 and, computed in float32, float64, float8_e4m3fn and float8_e5m2; \
                     name one of the first three when loading, as dtype=\"float32\"";
        unsupported(path, format_args!("{key} {name:?}"), known)
    })
}

#[cfg(test)]
mod tests;
