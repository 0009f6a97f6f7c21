//! How the files of a folder, and arguments, become the settings of a tokenizer.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::super::choice::{OwnTokenizers, class_of, is_older_mistral};
use super::super::files::{fault, read, read_object};
use super::super::special::{Added, ROLES};
use super::{ADDITIONAL, CHAT, EXTRA, Settings, content_of, is_other_role};
use crate::{Error, Result};

/// Whether a value of a setting counts.
type Asks = fn(&Value) -> bool;

/// Settings by which the reference makes another tokenizer of the files, the values that do, and why they are refused.
const OTHER_TOKENIZERS: &[(&str, Asks, &str)] = &[
    ("init_inputs", asks, "arguments without names are not known: leave them out"),
    ("tokenizer_truncation", asks, "truncation_side and model_max_length are read: set these"),
    ("tokenizer_padding", asks, "padding_side and pad_token are read: set these"),
    (
        "fast_tokenizer_files",
        names_another_file,
        "only tokenizer.json is read: give the file that transformers chooses that name, and remove the key",
    ),
];

/// Whether the tokens of two roles are put around a text.
const FLAGS: [&str; 2] = ["add_bos_token", "add_eos_token"];

impl Settings {
    pub fn read(folder: &Path, arguments: &Map<String, Value>, of_model: OwnTokenizers) -> Result<Self> {
        let path = folder.join("tokenizer_config.json");
        let mut values = read_object(&path)?.unwrap_or_default();
        let asked = FLAGS.iter().any(|flag| arguments.contains_key(*flag));
        if asked && folder.join("tokenizer.json").exists() {
            FLAGS.iter().for_each(|flag| drop(values.remove(*flag)));
        }
        // Files count before the setting.
        if let Some(templates) = templates(folder)? {
            values.insert(CHAT.into(), templates);
        }
        values.extend(arguments.clone());
        for (key, asks, reason) in OTHER_TOKENIZERS {
            if let Some(value) = values.get(*key).filter(|value| asks(value)) {
                return Err(Error::unsupported(format!("{}: {key} {value}", path.display()), *reason));
            }
        }
        let model = read_object(&folder.join("config.json"))?.unwrap_or_default();
        let class = class_of(&values, &model, folder, of_model)?;
        let (others, older) = Default::default();
        let mut settings = Settings { path, values, others, class, mends: false, added: None, older, asked };
        if settings.values.contains_key(ADDITIONAL) && !settings.values.get(EXTRA).is_some_and(holds_something) {
            let list = settings.values.remove(ADDITIONAL).unwrap_or_default();
            settings.values.insert(EXTRA.into(), list);
        }
        settings.set_others_apart();
        settings.put_saved_others_back();
        settings.mends = settings.flag("fix_mistral_regex")?.unwrap_or(false) && is_older_mistral(&model, of_model);
        match settings.values.get("added_tokens_decoder") {
            Some(tokens) => settings.added = Some(settings.added_of(tokens)?),
            None => settings.read_older(folder, arguments)?,
        }
        Ok(settings)
    }

    /// Reads special_tokens_map.json and added_tokens.json, which apply where tokenizer_config.json lists no added
    /// tokens.
    fn read_older(&mut self, folder: &Path, arguments: &Map<String, Value>) -> Result<()> {
        for (key, mut value) in read_object(&folder.join("special_tokens_map.json"))?.unwrap_or_default() {
            if arguments.get(&key).is_some_and(|given| !given.is_null()) {
                continue;
            }
            if let (Value::Object(token), true) = (&mut value, key != EXTRA) {
                token.insert("special".into(), Value::Bool(true));
            }
            if let (Value::Array(new), Some(Value::Array(own))) = (&value, self.values.get(&key))
                && key == EXTRA
            {
                let fresh = new.iter().filter(|token| !own.contains(token)).cloned();
                value = Value::Array(own.iter().cloned().chain(fresh).collect());
            }
            self.values.insert(key, value);
        }
        self.set_others_apart();
        let path = folder.join("added_tokens.json");
        for (content, id) in read_object(&path)?.unwrap_or_default() {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.ok_or_else(|| fault(&path, format!("the id of {content:?} is not a number of 32 bits")))?;
            let extra = self.values.get(EXTRA).and_then(Value::as_array).into_iter().flatten();
            let named = ROLES.iter().filter_map(|role| self.values.get(*role)).chain(extra);
            let special = named.filter_map(content_of).any(|known| known == content);
            let mut token = Added::special(&content);
            token.special = special;
            self.older.insert(id, token);
        }
        Ok(())
    }

    /// Adds the tokens with other roles that the reference saves together, where there are none by themselves.
    fn put_saved_others_back(&mut self) {
        let saved = self.values.remove("model_specific_special_tokens");
        let own = |(key, value): (&String, &Value)| is_other_role(key) && content_of(value).is_some();
        if let (Some(Value::Object(mut saved)), false) = (saved, self.values.iter().any(own) || !self.others.is_empty())
        {
            self.others.append(&mut saved);
        }
    }

    fn set_others_apart(&mut self) {
        if let Some(Value::Object(others)) = self.values.get_mut(EXTRA) {
            self.others.append(others);
            self.values.remove(EXTRA);
        }
    }

    fn added_of(&self, tokens: &Value) -> Result<BTreeMap<u32, Added>> {
        let wrong = |what: &str| fault(&self.path, format!("added_tokens_decoder: {what}"));
        let tokens = tokens.as_object().ok_or_else(|| wrong("not an object"))?;
        let token = |(id, token): (&String, &Value)| {
            let known = id.parse().map_err(|_| wrong(&format!("{id:?} is not an id")))?;
            match token {
                Value::Object(_) => Added::of_value(token).map(|token| (known, token)),
                _ => None,
            }
            .ok_or_else(|| wrong(&format!("the token {id} is not an object with its content and flags")))
        };
        tokens.iter().map(token).collect()
    }
}

/// The chat templates that have files: one, or several by name.
fn templates(folder: &Path) -> Result<Option<Value>> {
    let text = |path: &Path| {
        String::from_utf8(read(path)?).map(Value::from).map_err(|_| fault(path, "is not in UTF-8".into()))
    };
    let (own, others) = (folder.join("chat_template.jinja"), folder.join("additional_chat_templates"));
    let mut found = Map::new();
    if own.exists() {
        found.insert("default".into(), text(&own)?);
    }
    for entry in std::fs::read_dir(&others).into_iter().flatten().flatten() {
        let path = entry.path();
        if let (Some(name), Some("jinja")) =
            (path.file_stem().and_then(|n| n.to_str()), path.extension().and_then(|e| e.to_str()))
        {
            found.insert(name.to_owned(), text(&path)?);
        }
    }
    Ok(match found.len() {
        0 => None,
        1 if found.contains_key("default") => found.remove("default"),
        _ => Some(Value::Object(found)),
    })
}

fn asks(value: &Value) -> bool {
    holds_something(value) || *value == Value::Bool(true)
}

fn names_another_file(value: &Value) -> bool {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).any(|name| name != "tokenizer.json")
}

/// Whether a list or an object has entries.
fn holds_something(value: &Value) -> bool {
    value.as_array().is_some_and(|list| !list.is_empty()) || value.as_object().is_some_and(|map| !map.is_empty())
}
