//! Gemma (2024): LLaMA with norms times one more than the stored weight, and embeddings times the root of their columns.

use serde_json::{Value, json};

use super::config::{ConfigFile, Keys, Read};
use super::llama;
use crate::model::fields::Fields;
use crate::model::spec::{EncoderSpec, NormKind};

const KEYS: Keys = Keys { activation: ("hidden_act", USUAL), ..llama::KEYS };
const USUAL: &str = "gelu_pytorch_tanh";

/// Reads a `model_type: "gemma"` configuration.
///
/// # Errors
/// As [`llama::read_as`].
pub fn read(config: ConfigFile<'_>) -> Read {
    let mut values = config.values.clone();
    // What the first configurations call so is the approximation.
    if let Some(name) = values.get_mut("hidden_act").filter(|name| **name == json!("gelu")) {
        *name = Value::from(USUAL);
    }
    llama::read_as(ConfigFile { values: &values, ..config }, &KEYS, scaled)
}

/// What all of the line have: heads of 256 columns unless configured otherwise, the norms, the factor on embeddings.
pub(super) fn scaled(fields: &mut Fields<'_>, spec: &mut EncoderSpec) {
    if fields.get("head_dim").is_none() {
        spec.head_dim = 256;
    }
    llama::attention_biases(fields, spec);
    spec.norm = NormKind::RmsPlusOne;
    spec.word_scale = (spec.hidden as f64).sqrt() as f32;
    spec.word_scale_rounded = true;
}
