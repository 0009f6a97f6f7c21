//! What callers say of a model and of a call; from another language as JSON, in which an unknown name is an error.

use std::str::FromStr;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::backend::choose::AUTO;
use crate::dtype::DType;
use crate::graph::shaders::Float32Products;
use crate::model::arguments::Arguments;
use crate::model::class::Class;
use crate::model::dtype::DTypeChoice;
use crate::numerics::Numerics;
use crate::ops::{Levels, PoolMode};
use crate::{Error, Result};

/// Options of loading a model.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadOptions {
    /// `"auto"`, the best GPU unless it is an integrated one that is slower than the CPU; `"vulkan"`, `"vulkan:N"` or `"cpu"`; several
    /// that share batches, with commas between, or `"all"` usable ones.
    pub device: String,
    /// Whether several devices may be of different kinds, so that the last bits depend on the one that computes a text.
    pub mixed: bool,
    /// The type to which weights are rounded, and in which a device stores the encoder's numbers; the CPU stores
    /// float32 in place of floating-point types. `None` for the default, or else the model's own.
    #[serde(deserialize_with = "named")]
    pub dtype: Option<DTypeChoice>,
    /// The type where none is given and config.json does not say that products are in integers.
    #[serde(deserialize_with = "named")]
    pub default_dtype: Option<DType>,
    /// Maximum tokens of a text; `None` for the model's own limit. A value above the limit of the position table is
    /// reduced to that limit with a warning.
    pub max_seq_length: Option<usize>,
    /// CPU threads; `None` for all that the process may use.
    pub num_threads: Option<usize>,
    /// Maximum bytes of device memory, for the weights of one task.
    pub memory_limit: Option<u64>,
    /// The task whose adapter encodes texts without a task; `None` for the model's own.
    pub default_task: Option<String>,
    /// What is computed; in JSON `kind`, the name of the class.
    #[serde(rename = "kind")]
    pub class: &'static Class,
    /// How float32 products run on a GPU with matrix cores; `None` for the process' choice.
    #[serde(deserialize_with = "named")]
    pub float32_products: Option<Float32Products>,
    /// What the numbers of the model mean; `None` for the process' choice.
    #[serde(deserialize_with = "named")]
    pub numerics: Option<Numerics>,
    /// Keyword arguments for the readers of the model's files; in JSON a text, as [`Arguments::of_caller`] reads it.
    #[serde(deserialize_with = "arguments")]
    pub arguments: Arguments,
    /// Integers to which the matrices of the layers' products are rounded, where the model does not say so itself.
    #[serde(deserialize_with = "named")]
    pub rounded_products: Option<Levels>,
    /// Tokens of a folder without `modules.json` whose logits are scores: the logit of one, or that of the first minus that
    /// of the second; `None` for "yes" and "no".
    pub score_tokens: Option<Vec<String>>,
    /// What Pooling modules compute in place of their own modes; not empty.
    #[serde(deserialize_with = "modes")]
    pub pooling: Option<Vec<PoolMode>>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            device: AUTO.into(),
            mixed: false,
            dtype: Some(DTypeChoice::Given(DType::F32)),
            default_dtype: None,
            max_seq_length: None,
            num_threads: None,
            memory_limit: None,
            default_task: None,
            class: <&Class>::default(),
            float32_products: None,
            numerics: None,
            arguments: Arguments::default(),
            rounded_products: None,
            score_tokens: None,
            pooling: None,
        }
    }
}

impl LoadOptions {
    /// How the type is chosen.
    pub(super) fn dtype_choice(&self) -> DTypeChoice {
        self.dtype.or(self.default_dtype.map(DTypeChoice::Default)).unwrap_or(DTypeChoice::Model)
    }
}

/// Options of encoding texts.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EncodeOptions {
    /// Prefix of every text.
    pub prompt: String,
    /// The task that chooses among the routes of a Router and among adapters; without effect in other models.
    pub task: Option<String>,
    /// Maximum texts per batch.
    pub batch_size: usize,
    /// Whether to return the tokens' vectors too.
    pub tokens: bool,
    /// Maximum tokens of a text in this call; `None`: the model's.
    pub max_length: Option<usize>,
}

impl Default for EncodeOptions {
    fn default() -> Self {
        EncodeOptions { prompt: String::new(), task: None, batch_size: 32, tokens: false, max_length: None }
    }
}

/// Options of decoding.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DecodeOptions {
    /// Prefix of every text that is encoded.
    pub prompt: String,
    /// Maximum pairs per batch.
    pub batch_size: usize,
    /// Whether the decoder reads the start token and all tokens but the last, instead of the tokens as they are.
    pub shift_right: bool,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        DecodeOptions { prompt: String::new(), batch_size: 32, shift_right: true }
    }
}

/// Options from a JSON object.
///
/// # Errors
/// `InvalidArgument` for an unknown name and a value of another type.
pub fn read_options<T: DeserializeOwned>(values: Value) -> Result<T> {
    serde_json::from_value(values).map_err(|error| Error::InvalidArgument(format!("options: {error}")))
}

fn named<'de, D: Deserializer<'de>, T: FromStr<Err = Error>>(value: D) -> std::result::Result<Option<T>, D::Error> {
    let name = Option::<String>::deserialize(value)?;
    name.map(|name| name.parse()).transpose().map_err(D::Error::custom)
}

fn modes<'de, D: Deserializer<'de>>(value: D) -> std::result::Result<Option<Vec<PoolMode>>, D::Error> {
    let mode = |name: String| {
        PoolMode::named(&name).ok_or_else(|| D::Error::custom(format_args!("{name:?} is not a pooling mode")))
    };
    let names = Option::<Vec<String>>::deserialize(value)?;
    names.map(|names| names.into_iter().map(mode).collect()).transpose()
}

fn arguments<'de, D: Deserializer<'de>>(value: D) -> std::result::Result<Arguments, D::Error> {
    let text = Option::<String>::deserialize(value)?;
    text.map_or_else(|| Ok(Arguments::default()), |text| Ok(Arguments::of_caller(&text).map_err(D::Error::custom)?.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_read_by_name_and_none_is_lost() {
        let read = |values| read_options::<LoadOptions>(values);
        let found = read(json!({"device": "cpu", "dtype": "int8", "kind": "SparseEncoder", "pooling": ["cls"],
            "rounded_products": "ternary", "arguments": "{\"config_kwargs\": {\"num_hidden_layers\": 1}}"}));
        let found = found.unwrap();
        assert_eq!((found.dtype_choice(), found.class.name), (DTypeChoice::Integers, "SparseEncoder"));
        assert_eq!((found.pooling, found.rounded_products), (Some(vec![PoolMode::Cls]), Some(Levels::Ternary)));
        assert_eq!(found.arguments.config["num_hidden_layers"], 1);
        let default = read(json!({"dtype": null, "default_dtype": "float16"})).unwrap();
        assert_eq!(default.dtype_choice(), DTypeChoice::Default(DType::F16));
        assert_eq!(read(json!({"dtype": null})).unwrap().dtype_choice(), DTypeChoice::Model);
        for (values, problem) in [
            (json!({"memory": 1}), "unknown field `memory`"),
            (json!({"kind": "Encoder"}), "there is no class \"Encoder\""),
            (json!({"pooling": ["most"]}), "\"most\" is not a pooling mode"),
            (json!({"num_threads": "two"}), "num_threads"),
        ] {
            let error = read(values).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
            assert!(problem == "num_threads" || error.to_string().contains(problem), "{error}");
        }
        assert!(read_options::<EncodeOptions>(json!({"batch": 3})).is_err());
        assert_eq!(read_options::<EncodeOptions>(json!({"batch_size": 3})).unwrap().batch_size, 3);
    }
}
