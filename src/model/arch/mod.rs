//! Architectures: from config.json to `EncoderSpec` and a name table, with no tensor code.

mod bert;
mod config;
mod distilbert;
mod electra;
mod gpt2;
mod mpnet;
mod roberta;
mod shaders;

use std::path::Path;

use serde_json::{Map, Value};
pub use shaders::{SHADERS, Shaders};

use super::spec::{EncoderSpec, NameRules};
use crate::Result;

/// Reads a configuration into data.
pub type ReadSpec = fn(&Map<String, Value>, &Path) -> Result<(EncoderSpec, NameRules)>;

/// A row of [`ARCHITECTURES`].
pub struct Architecture {
    /// `model_type` of config.json.
    pub model_type: &'static str,
    /// Prefix of its class names in `architectures`, before `Model` or `For`.
    pub class: &'static str,
    /// Prefixes of stored names that identify a checkpoint of this architecture, or of another with the same prefixes.
    pub marks: &'static [&'static str],
    /// The reader of its configuration.
    pub read: ReadSpec,
}

/// The architectures that can be loaded.
pub const ARCHITECTURES: &[Architecture] = &[
    Architecture { model_type: "bert", class: "Bert", marks: &["bert."], read: bert::read },
    Architecture { model_type: "camembert", class: "Camembert", marks: &["roberta."], read: roberta::read },
    Architecture {
        model_type: "distilbert",
        class: "DistilBert",
        marks: &["distilbert.", "transformer.layer."],
        read: distilbert::read,
    },
    Architecture {
        model_type: "electra",
        class: "Electra",
        marks: &["electra.", "embeddings_project."],
        read: electra::read,
    },
    Architecture {
        model_type: "gpt2",
        class: "GPT2",
        marks: &["h.0.attn.c_attn.", "transformer.h."],
        read: gpt2::read,
    },
    Architecture {
        model_type: "mpnet",
        class: "MPNet",
        marks: &["mpnet.", "encoder.relative_attention_bias.", "encoder.layer.0.attention.attn."],
        read: mpnet::read,
    },
    Architecture { model_type: "roberta", class: "Roberta", marks: &["roberta."], read: roberta::read },
    Architecture { model_type: "xlm-roberta", class: "XLMRoberta", marks: &["roberta."], read: roberta::read },
];

#[cfg(test)]
mod tests;
