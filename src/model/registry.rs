//! `model_type` of config.json to architecture: one row each.

use std::path::Path;

use serde_json::{Map, Value};

use super::fields::Fields;
use super::spec::{EncoderSpec, NameRules};
use crate::{Error, Result};

/// Turns a configuration into data.
pub type ReadSpec = fn(&Map<String, Value>, &Path) -> Result<(EncoderSpec, NameRules)>;

/// The architectures, by `model_type`.
pub const ARCHITECTURES: &[(&str, ReadSpec)] = &[("bert", super::arch::bert::read)];

/// Starts of the class names in `architectures`, for configurations without a `model_type`.
const CLASSES: &[(&str, &str)] = &[("BertModel", "bert"), ("BertFor", "bert")];

/// The specification of the model configured by `path`.
///
/// # Errors
/// `Unsupported` for an unknown `model_type`, naming those that are known; `ModelFormat` for missing or absurd values.
pub fn read_spec(config: &Map<String, Value>, path: &Path) -> Result<(EncoderSpec, NameRules)> {
    let model_type = model_type(config, path)?;
    let Some((_, read)) = ARCHITECTURES.iter().find(|(name, _)| *name == model_type) else {
        let known: Vec<&str> = ARCHITECTURES.iter().map(|(name, _)| *name).collect();
        return Err(Error::Unsupported {
            what: format!("{}: model_type {model_type:?}", path.display()),
            reason: format!("known are {}", known.join(", ")),
        });
    };
    read(config, path)
}

/// `model_type` of a configuration, or what its `architectures` say where that is missing.
///
/// # Errors
/// `ModelFormat` when neither names one.
pub fn model_type<'a>(config: &'a Map<String, Value>, path: &Path) -> Result<&'a str> {
    let mut fields = Fields::new(config, path);
    let stated = fields.text("model_type");
    let class = config.get("architectures").and_then(|list| list.get(0)).and_then(Value::as_str);
    let implied = class.and_then(|class| CLASSES.iter().find(|(start, _)| class.starts_with(start)));
    let found = stated.or(implied.map(|(_, model_type)| *model_type));
    if found.is_none() {
        fields.fault("model_type is missing".into());
    }
    fields.done()?;
    Ok(found.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(EncoderSpec, NameRules)> {
        read_spec(&serde_json::from_str(text).unwrap(), Path::new("config.json"))
    }

    const SIZES: &str = r#""hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
        "vocab_size": 30, "max_position_embeddings": 12"#;

    #[test]
    fn the_class_stands_in_for_a_missing_model_type() {
        let with = |more: &str| read(&format!("{{{SIZES}, {more}}}"));
        assert_eq!(with(r#""model_type": "bert""#).unwrap().0.architecture, "bert");
        assert_eq!(with(r#""architectures": ["BertForMaskedLM"]"#).unwrap().0.architecture, "bert");
        for vague in
            [r#""architectures": ["BertGenerationEncoder"]"#, r#""architectures": []"#, r#""model_type": null"#]
        {
            assert!(with(vague).unwrap_err().to_string().contains("model_type is missing"), "{vague}");
        }
        assert!(matches!(with(r#""model_type": 3"#), Err(Error::ModelFormat { .. })));
    }

    #[test]
    fn an_unknown_model_type_names_the_known_ones() {
        let error = read(r#"{"model_type": "mamba"}"#).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }));
        assert_eq!(error.to_string(), "config.json: model_type \"mamba\": known are bert");
    }
}
