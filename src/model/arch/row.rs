//! A row of the table of architectures, made field by field.

use super::config::{ConfigFile, Read};
use crate::text::tokenizer::OwnTokenizer;

/// Reads a configuration into data.
pub(super) type ReadSpec = fn(ConfigFile<'_>) -> Read;

/// A row of [`ARCHITECTURES`](super::ARCHITECTURES).
pub struct Architecture {
    /// `model_type` of config.json.
    pub model_type: &'static str,
    /// Prefix of its class names in `architectures`, before `Model` or `For`.
    pub class: &'static str,
    /// Prefixes of stored names that identify a checkpoint of this architecture, or of another with the same prefixes.
    pub marks: Names,
    /// The reader of its configuration.
    pub(super) read: ReadSpec,
    /// Models of this architecture, for the documentation.
    pub models: &'static str,
    /// The class of its tokenizer in the reference.
    pub tokenizer: Option<OwnTokenizer>,
    /// Whether it has a decoder beside its encoder.
    pub decodes: bool,
    /// Why attention of its models may stay fused although a shader of the user is registered for a part of it.
    pub whole: Option<&'static str>,
    /// Its shaders of `attention_output`; the generic one if it names none.
    pub shaders: Option<Shaders>,
}

/// Shaders of `attention_output` that architectures share.
#[derive(Clone, Copy)]
pub struct Shaders {
    /// The name under which they are registered.
    pub name: &'static str,
    /// Name of their row in `ops::attention_output::FAMILIES`.
    pub family: &'static str,
}

pub(super) type Names = &'static [&'static str];

pub(super) const fn row(model_type: &'static str, class: &'static str, marks: Names, read: ReadSpec) -> Architecture {
    let (models, tokenizer, decodes, whole, shaders) = ("", None, false, None, None);
    Architecture { model_type, class, marks, read, models, tokenizer, decodes, whole, shaders }
}

impl Architecture {
    pub(super) const fn models(self, models: &'static str) -> Self {
        Architecture { models, ..self }
    }

    pub(super) const fn tokenizer(self, class: &'static str) -> Self {
        Architecture { tokenizer: Some(OwnTokenizer { class, always: false, mended: false }), ..self }
    }

    pub(super) const fn mended_tokenizer(self, class: &'static str) -> Self {
        Architecture { tokenizer: Some(OwnTokenizer { class, always: false, mended: true }), ..self }
    }

    pub(super) const fn always_tokenizer(self, class: &'static str) -> Self {
        Architecture { tokenizer: Some(OwnTokenizer { class, always: true, mended: false }), ..self }
    }

    pub(super) const fn decodes(self) -> Self {
        Architecture { decodes: true, ..self }
    }

    pub(super) const fn whole(self, reason: &'static str) -> Self {
        Architecture { whole: Some(reason), ..self }
    }

    pub(super) const fn shaders(self, name: &'static str, family: &'static str) -> Self {
        Architecture { shaders: Some(Shaders { name, family }), ..self }
    }
}
