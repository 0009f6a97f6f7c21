//! Forms of models: those of a `model_type`, and others under its name.

use std::path::Path;

use serde_json::{Map, Value};

use super::config::{ConfigFile, Read};
use super::row::{Names, ReadSpec};
use super::{Architecture, code, jina_bert, keys, nomic_bert, xlm_roberta_flash};
use crate::Result;

/// Models under the `model_type` of others: a form of their own in the table of keys.
pub(super) struct LookAlike {
    pub form: &'static str,
    model_types: Names,
    /// Prefix of its class names.
    class: &'static str,
    /// Whether a configuration is of this form.
    is: fn(&Map<String, Value>) -> bool,
    read: ReadSpec,
}

/// What a configuration is read as: its name in the table of keys, the prefix of its class names, its reader.
pub(super) struct Form {
    pub name: &'static str,
    class: &'static str,
    read: ReadSpec,
}

pub(super) const LOOK_ALIKES: &[LookAlike] = &[
    LookAlike {
        form: "jina-bert",
        model_types: &["bert"],
        class: "JinaBert",
        is: jina_bert::is,
        read: jina_bert::read,
    },
    LookAlike {
        form: "nomic_bert-hub",
        model_types: &["nomic_bert"],
        class: "NomicBert",
        is: nomic_bert::is_of_hub,
        read: nomic_bert::read,
    },
    LookAlike {
        form: "xlm-roberta-flash",
        model_types: &["camembert", "roberta", "xlm-roberta"],
        class: "XLMRoberta",
        is: xlm_roberta_flash::is,
        read: xlm_roberta_flash::read,
    },
];

impl Architecture {
    /// Reads a configuration, of this `model_type` or of a model under its name.
    ///
    /// # Errors
    /// `ModelFormat` for missing or invalid values; `Unsupported` for a key with a value that is not computed.
    pub(in crate::model) fn read(&self, config: &Map<String, Value>, path: &Path) -> Read {
        let form = self.form(config);
        let honoured = keys::honoured(form.name, config, path)?;
        let (spec, rules) = (form.read)(ConfigFile { values: &honoured, path })?;
        let open = spec.causal && !honoured.contains_key("is_causal");
        code::check(config, path, "AutoModel", form.class, open)?;
        Ok((spec, rules))
    }

    /// Whether a class is one of this architecture in transformers.
    pub fn has_class(&self, class: &str) -> bool {
        code::is_of(self.class, class)
    }

    /// Checks the class of a head in a repository's own code, such as `AutoModelForMaskedLM`.
    ///
    /// # Errors
    /// `Unsupported` for a class that is none of this form.
    pub fn check_head(&self, config: &Map<String, Value>, path: &Path, kind: &str) -> Result<()> {
        code::check(config, path, kind, self.form(config).class, false)
    }

    /// The form of a configuration of this `model_type`.
    pub(super) fn form(&self, config: &Map<String, Value>) -> Form {
        let mut likes = LOOK_ALIKES.iter().filter(|like| like.model_types.contains(&self.model_type));
        match likes.find(|like| (like.is)(config)) {
            Some(like) => Form { name: like.form, class: like.class, read: like.read },
            None => Form { name: self.model_type, class: self.class, read: self.read },
        }
    }
}
